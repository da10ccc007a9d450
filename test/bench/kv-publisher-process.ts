/** Publishes `rate` event batches a second for `seconds` on a real PUB socket: one stored block of 16 tokens each, map encoding. */
import { encode } from '@msgpack/msgpack';
import { Publisher } from 'zeromq';

const [endpoint = '', rateText = '0', secondsText = '0'] = process.argv.slice(2);
const rate = Number(rateText);
const total = rate * Number(secondsText);

const socket = new Publisher({ sendHighWaterMark: 0, linger: 5000 });
await socket.bind(endpoint);
process.send?.('bound');
await new Promise((resolve) => {
  process.once('message', resolve);
});

const tokens = Array.from({ length: 16 }, (_, i) => 1000 + i);
function payload(seq: number): Uint8Array {
  return encode(
    [
      Date.now() / 1000,
      [{ type: 'BlockStored', block_hashes: [BigInt(seq) * 0x9e3779b97f4a7c15n & 0xffffffffffffffffn], parent_block_hash: null, token_ids: tokens, block_size: 16, lora_id: null, medium: 'GPU', lora_name: null, group_idx: 0, kv_cache_spec_kind: 'full_attention' }],
      0,
    ],
    { useBigInt64: true },
  );
}

const startedMs = performance.now();
let seq = 0;
const frame = Buffer.alloc(8);
while (seq < total) {
  const due = Math.min(total, Math.floor(((performance.now() - startedMs) / 1000) * rate));
  for (; seq < due; seq += 1) {
    frame.writeBigUInt64BE(BigInt(seq));
    await socket.send(['', Buffer.from(frame), payload(seq)]);
  }
  await new Promise((resolve) => {
    setTimeout(resolve, 2);
  });
}
process.send?.({ sent: seq, seconds: (performance.now() - startedMs) / 1000 });
process.once('message', () => {
  socket.close();
  process.exit(0);
});
