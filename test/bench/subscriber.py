"""What an engine's example subscriber does, for the benchmark to stand beside pdscope: a SUB socket, the sequence, and
msgspec's typed decoding of every batch. Counts, or prints each event with --print; tells its totals on SIGTERM."""

import json
import signal
import sys
from typing import Optional, Union

import msgspec
import zmq


class Stored(msgspec.Struct, tag="BlockStored", gc=False):
    block_hashes: list[Union[int, bytes]]
    parent_block_hash: Union[int, bytes, None]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None


class Removed(msgspec.Struct, tag="BlockRemoved", gc=False):
    block_hashes: list[Union[int, bytes]]
    medium: Optional[str] = None
    group_idx: Optional[int] = None


class Cleared(msgspec.Struct, tag="AllBlocksCleared", gc=False):
    pass


class Batch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[Union[Stored, Removed, Cleared]]
    data_parallel_rank: Optional[int] = None


class Ended(Exception):
    pass


def end(_signal, _frame):
    raise Ended


def main() -> None:
    endpoint = sys.argv[1]
    prints = "--print" in sys.argv
    decoder = msgspec.msgpack.Decoder(Batch)
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(endpoint)
    signal.signal(signal.SIGTERM, end)
    batches = events = lost = 0
    last = -1
    print("ready", file=sys.stderr, flush=True)
    try:
        while True:
            if not socket.poll(50):
                continue
            _, sequence, payload = socket.recv_multipart()
            number = int.from_bytes(sequence, "big")
            lost += number - last - 1
            last = number
            batch = decoder.decode(payload)
            batches += 1
            events += len(batch.events)
            if prints:
                for event in batch.events:
                    print(f"  - {event}")
    except Ended:
        print(json.dumps({"batches": batches, "events": events, "missed": lost}), file=sys.stderr, flush=True)


main()
