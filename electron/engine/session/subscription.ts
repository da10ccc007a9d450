/**
 * One subscription of a session: numbers its frames, and turns a slow peer into skipped deltas and a fresh snapshot.
 */
import type { KvRow } from '#shared/kv.ts';
import type { RequestRow } from '#shared/request.ts';
import type { EngineState } from '#shared/state.ts';
import { MAX_ROWS_PER_DELTA, type Channel, type ChannelData, type ClientMessageSchema, type HostMessage } from '#shared/wire.ts';
import type { z } from 'zod';
import type { RowLog } from '../row-log.ts';
import { AppendFeed } from './append-feed.ts';
import type { RowFeed, RowFrame } from './row-feed.ts';
import { UpsertFeed } from './upsert-feed.ts';

export type SubscribeMessage = Extract<z.output<typeof ClientMessageSchema>, { t: 'subscribe' }>;

export interface Subscription {
  readonly channel: Channel;
  /** Sends the first snapshot, perhaps some turns of the event loop later. */
  start(): void;
  /** Sends what is new; `state` on ticks of the state channel. */
  tick(state?: EngineState): void;
  close(): void;
}

interface Common {
  readonly message: SubscribeMessage;
  readonly send: (message: HostMessage) => void;
  /** Whether the peer has more to read than it should. */
  readonly isBehind: () => boolean;
  /** Ends this subscription because of an error that no caller can catch. */
  readonly fail: (error: unknown) => void;
}

export type SubscriptionInit = Common &
  (
    | { readonly channel: 'state'; readonly state: () => EngineState }
    | { readonly channel: 'requests'; readonly log: RowLog<RequestRow>; readonly filter: ((row: RequestRow) => boolean) | undefined }
    | { readonly channel: 'kv'; readonly log: RowLog<KvRow>; readonly filter: ((row: KvRow) => boolean) | undefined }
  );

export function openSubscription(init: SubscriptionInit): Subscription {
  if (init.channel === 'state') return stateSubscription(init, init.state);
  if (init.channel === 'requests') return rowSubscription(init, 'requests', new UpsertFeed<RequestRow>(feedOptions(init)));
  return rowSubscription(init, 'kv', new AppendFeed<KvRow>(feedOptions(init)));
}

function feedOptions<Row>(init: Common & { readonly log: RowLog<Row>; readonly filter: ((row: Row) => boolean) | undefined }) {
  const { log, filter, message } = init;
  return { log, limit: message.limit, maxRows: MAX_ROWS_PER_DELTA, ...(filter !== undefined && { matches: filter }) };
}

/** Numbers frames and counts skips; the one place that knows the protocol's sequence rules. */
class FrameSequence<C extends Channel> {
  readonly #init: Common;
  readonly #channel: C;
  #seq = 0;
  #skipped = 0;
  /** True from a skipped delta until the snapshot that makes up for it. */
  isSkipping = false;

  constructor(init: Common, channel: C) {
    this.#init = init;
    this.#channel = channel;
  }

  skip(): void {
    this.#skipped += 1;
    this.isSkipping = true;
  }

  snapshot(data: ChannelData[C]): void {
    this.isSkipping = false;
    this.#send({ t: 'snapshot', skipped: this.#skipped, ...data });
  }

  delta(data: ChannelData[C]): void {
    this.#send({ t: 'delta', ...data });
  }

  #send(frame: ChannelData[C] & ({ readonly t: 'snapshot'; readonly skipped: number } | { readonly t: 'delta' })): void {
    this.#seq += 1;
    // The compiler does not see that channel and data belong together in a generic method.
    this.#init.send({ sub: this.#init.message.sub, channel: this.#channel, seq: this.#seq, ...frame } as unknown as HostMessage);
  }
}

function stateSubscription(init: Common, state: () => EngineState): Subscription {
  const frames = new FrameSequence(init, 'state');
  return {
    channel: 'state',
    start: () => frames.snapshot({ state: state() }),
    tick(current) {
      if (current === undefined) return;
      if (init.isBehind()) frames.skip();
      else if (frames.isSkipping) frames.snapshot({ state: current });
      else frames.delta({ state: current });
    },
    close() {
      // Nothing is held: the ticker's owner stops calling.
    },
  };
}

function rowSubscription<Row>(init: Common, channel: 'requests' | 'kv', feed: RowFeed<Row>): Subscription {
  const frames = new FrameSequence(init, channel);
  let isScanning = false;
  let isClosed = false;

  function scan(steps: Generator<undefined, RowFrame<Row>, undefined>): void {
    if (isClosed) return;
    const step = steps.next();
    isScanning = step.done !== true;
    if (step.done === true) frames.snapshot(step.value as unknown as ChannelData[typeof channel]);
    // A turn of the event loop between slices: tokens that arrived meanwhile go first.
    else setImmediate(() => continueScan(steps));
  }

  function continueScan(steps: Generator<undefined, RowFrame<Row>, undefined>): void {
    try {
      scan(steps);
    } catch (error) {
      init.fail(error);
    }
  }

  return {
    channel,
    start: () => scan(feed.snapshot()),
    tick() {
      if (isScanning || !(frames.isSkipping || feed.hasNews())) return;
      if (init.isBehind()) {
        frames.skip();
        return;
      }
      if (frames.isSkipping) {
        scan(feed.snapshot());
        return;
      }
      const delta = feed.delta();
      if (delta !== undefined) frames.delta(delta as unknown as ChannelData[typeof channel]);
    },
    close() {
      isClosed = true;
    },
  };
}
