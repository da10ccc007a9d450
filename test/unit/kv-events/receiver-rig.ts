/** A receiver of one stream whose engine, network and replay socket are made up, so that tests decide what comes when. */
import { DecodePump } from '#engine/kv-events/decode-pump.ts';
import { IntakeTurn } from '#engine/kv-events/intake-turn.ts';
import { StreamReceiver } from '#engine/kv-events/stream-receiver.ts';
import { copyOfRun } from '#engine/kv-events/word-run.ts';
import { EngineBuffer, Network, type Batch } from './lives.ts';

export interface Rig {
  readonly engine: EngineBuffer;
  readonly network: Network;
  readonly receiver: StreamReceiver;
  /** Batches applied, by epoch. */
  readonly epochs: Batch[][];
  readonly notes: string[];
  /** Resolves once nothing is queued and no replay runs. */
  readonly rest: () => Promise<void>;
}

export function rig({ capacity = 1000, hasReplay = true, queue = 10_000, backOffMs = 0 } = {}): Rig {
  const engine = new EngineBuffer(capacity);
  const network = new Network(engine);
  const pump = new DecodePump({ messages: queue, bytes: 1e9 });
  const epochs: Batch[][] = [];
  const notes: string[] = [];
  let epoch = 0;
  const receiver = new StreamReceiver({
    pump,
    intake: new IntakeTurn(),
    replayTurn: new IntakeTurn(2),
    endpoint: 'tcp://127.0.0.1:1',
    mode: 'connect',
    topic: '',
    ...(hasReplay && { replayEndpoint: 'tcp://127.0.0.1:2' }),
    replayLimits: { pauseMs: 0, backOffMs, maxFillMs: 5000 },
    subscribe: network.subscribe,
    request: network.request,
    onPhase: () => undefined,
    sink: {
      onEpoch: () => undefined,
      onGap: () => undefined,
      onLost: () => undefined,
      onNotice: (_context, { kind, note }) => notes.push(`${kind}: ${note}`),
      onEvent: (context, event) => {
        if (event.kind !== 'stored') throw new Error(event.kind);
        if (context.epoch !== epoch) epochs.push([]);
        epoch = context.epoch;
        const [life = 0, seq = 0] = copyOfRun(event.tokens);
        epochs.at(-1)?.push({ life, seq });
      },
    },
  });
  receiver.open();
  return {
    engine, network, receiver, epochs, notes,
    rest: async () => {
      do await new Promise((resolve) => setImmediate(resolve)); while (pump.queuedMessages > 0 || receiver.filler?.isAsking === true || receiver.lane.isHeld);
    },
  };
}
