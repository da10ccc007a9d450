import { describe, expect, it } from 'vitest';
import { Router } from 'zeromq';
import { formatJson, formatText } from '#engine/kv-events/format-event.ts';
import { formatSummary } from '#engine/kv-events/format-watch.ts';
import { requestReplay, type ReplayOutcome } from '#engine/kv-events/replay-client.ts';
import { watchEvents, type WatchOptions, type WatchRecord } from '#engine/kv-events/watch.ts';
import type { WatchStats } from '#engine/kv-events/watch-stats.ts';
import { frames, replays, type GoldenReplay } from '../../unit/kv-events/golden.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { TestPublisher, batchFrames, freePort, freePorts, stored, until } from './publisher.ts';

/** A ROUTER that answers every request with these replies, and keeps the requests. */
class TestRouter implements AsyncDisposable {
  readonly requests: string[][] = [];
  readonly #socket = new Router({ linger: 0 });
  #loop: Promise<void> = Promise.resolve();

  static async bound(endpoint: string, replies: readonly (readonly Uint8Array[])[], needsDelimiter = true): Promise<TestRouter> {
    const router = new TestRouter();
    await router.#socket.bind(endpoint);
    router.#loop = router.#serve(replies, needsDelimiter);
    return router;
  }

  async #serve(replies: readonly (readonly Uint8Array[])[], needsDelimiter: boolean): Promise<void> {
    for await (const [identity, ...request] of this.#socket) {
      this.requests.push(request.map((frame) => frame.toString('hex')));
      if (identity === undefined || (needsDelimiter && request.length !== 2)) continue;
      for (const reply of replies) await this.#socket.send([identity, ...reply.map((frame) => Buffer.from(frame))]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await this.#loop;
  }
}

interface Watch {
  readonly records: WatchRecord[];
  readonly replayEnds: ReplayOutcome[];
  readonly states: string[];
  stop(): Promise<WatchStats>;
}

function watch(options: Omit<WatchOptions, 'signal' | 'onRow'>): Watch {
  const controller = new AbortController();
  const records: WatchRecord[] = [];
  const replayEnds: ReplayOutcome[] = [];
  const states: string[] = [];
  const done = watchEvents({
    replayTimeoutMs: WAIT_LIMIT_MS,
    ...options,
    signal: controller.signal,
    onRow: (record) => records.push(record),
    onState: (rank, phase) => states.push(`${rank} ${phase}`),
    onReplayEnd: (_rank, outcome) => replayEnds.push(outcome),
  });
  return {
    records,
    replayEnds,
    states,
    stop() {
      controller.abort();
      return done;
    },
  };
}

const goldenReplay = (name: string): GoldenReplay => {
  const found = replays.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no golden replay ${name}`);
  return found;
};

describe('requestReplay', () => {
  const dealer = replays.filter((golden) => golden.client_socket === 'DEALER' && golden.reply_frames_hex.length > 0);

  it.each(dealer.map((golden) => [golden.name, golden] as const))('reads the golden answer %s', async (_name, golden) => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using router = await TestRouter.bound(endpoint, golden.reply_frames_hex.map(frames));
    const from = Number.parseInt(golden.request_frames_hex[1] ?? '0', 16);
    const got: unknown[] = [];
    const outcome = await requestReplay({
      endpoint,
      from,
      onMessage: ({ topic, frames: [, seq, payload] }) => {
        got.push([topic ?? null, Number(Buffer.from(seq).readBigUInt64BE()), Buffer.from(payload).toString('hex')]);
        return true;
      },
    });
    const expected = golden.decoded.flatMap((reply, index) => (reply.end ? [] : [[reply.topic, reply.seq, golden.reply_frames_hex[index]?.at(-1)]]));
    expect(got).toEqual(expected);
    expect(outcome).toEqual({ status: 'complete', messages: expected.length, badReplies: 0, layout: golden.name.startsWith('with-topic') ? 'topic' : 'bare' });
    expect(router.requests).toEqual([['', from.toString(16).padStart(16, '0')]]);
  });

  it('says that nobody answered, and what to look at', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const outcome = await requestReplay({ endpoint, from: 0, timeoutMs: 50, onMessage: () => true });
    expect(outcome).toMatchObject({ status: 'silent', messages: 0 });
    expect(outcome.reason).toContain(`nobody answered at ${endpoint} within 50 ms; is replay_endpoint set`);
  });

  it('tells an answer that stops before its end from silence, and counts replies that make no sense', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    const [, sequence, payload] = batchFrames(0, [stored(1)]) as [Buffer, Buffer, Buffer];
    await using _router = await TestRouter.bound(endpoint, [[Buffer.alloc(0), sequence, payload], [Buffer.from('x')], [Buffer.alloc(0), Buffer.from('short'), payload]]);
    const outcome = await requestReplay({ endpoint, from: 0, timeoutMs: 2000, onMessage: () => true });
    expect(outcome).toMatchObject({ status: 'partial', messages: 1, badReplies: 2 });
  });

  it('stops when the caller has enough, and on abort', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using _router = await TestRouter.bound(endpoint, goldenReplay('with-topic/from-2').reply_frames_hex.map(frames));
    expect(await requestReplay({ endpoint, from: 0, onMessage: () => false })).toMatchObject({ status: 'stopped', messages: 1 });

    const nobody = `tcp://127.0.0.1:${await freePort()}`;
    const controller = new AbortController();
    const pending = requestReplay({ endpoint: nobody, from: 0, timeoutMs: 60_000, signal: controller.signal, onMessage: () => true });
    controller.abort();
    expect(await pending).toMatchObject({ status: 'aborted' });
  });

  it('fails for an endpoint that libzmq refuses', async () => {
    expect(await requestReplay({ endpoint: 'nonsense', from: 0, onMessage: () => true })).toMatchObject({ status: 'failed' });
  });
});

describe('watchEvents', () => {
  it('prints live events and sums up', async () => {
    const port = await freePort();
    await using publisher = await TestPublisher.bound(`tcp://127.0.0.1:${port}`);
    const watched = watch({ endpoint: `tcp://127.0.0.1:${port}` });
    await until(() => watched.states.includes('0 connected'), 'connection');
    await publisher.batch(3, [stored(399), stored(2, 1)]);
    await publisher.batch(6, [['BlockStored', 'bad']]);
    await publisher.batch(7, [['AllBlocksCleared']]);
    await until(() => watched.records.length === 5, 'records');
    const summary = await watched.stop();
    expect(summary).toMatchObject({ batches: 3, events: 4, gaps: 1, missed: 2, bad: 1 });
    expect(formatSummary({ ...summary, seconds: 2 }).at(-1)).toBe('3 batches, 4 events in 2.0 s (2.0/s), 1 gap, 2 batches lost, 1 bad');
    expect(watched.records.map((record) => formatText(record))).toEqual([
      '00:16:43.000 #3      stored   1 block 000000000000018f <-root GPU 2 tokens of 2: 399 400',
      '00:16:43.000 #3      stored   1 block 0000000000000002 <-0000000000000001 GPU 2 tokens of 2: 2 3',
      '00:16:46.000 #6      gap      2 batches (4 to 5) are missing',
      '00:16:46.000 #6      error    BlockStored: block_hashes is a string: ["BlockStored","bad"]',
      '00:16:47.000 #7      cleared  all GPU blocks of this rank',
    ]);
  });

  it('prints the replay first, then live batches without those it had', async () => {
    const base = await freePorts(2);
    const endpoint = `tcp://127.0.0.1:${base}`;
    const golden = goldenReplay('with-topic/overflowed-buffer');
    await using publisher = await TestPublisher.bound(endpoint);
    const watched = watch({ endpoint, replayEndpoint: `tcp://127.0.0.1:${base + 1}` });
    await until(() => watched.states.includes('0 connected'), 'connection');
    // Live batches 5 and 6 arrive before the replay (3 to 5) has been answered.
    await publisher.batch(5, [stored(5)], { ts: 1_789_095_905.5 });
    await publisher.batch(6, [stored(6)], { ts: 1_789_095_906.5 });
    await using router = await TestRouter.bound(`tcp://127.0.0.1:${base + 1}`, golden.reply_frames_hex.map(frames));
    await until(() => watched.records.length === 6, 'records');
    const summary = await watched.stop();
    expect(router.requests).toEqual([['', '0000000000000000']]);
    expect(watched.replayEnds).toEqual([{ status: 'complete', messages: 3, badReplies: 0, layout: 'topic' }]);
    expect(watched.records.map((record) => [record.event.kind, record.seq, record.isReplayed])).toEqual([
      ['stored', 3, true], ['stored', 4, true], ['stored', 5, true], ['filled', 5, false], ['lost', 5, false], ['stored', 6, false],
    ]);
    expect(summary).toMatchObject({ batches: 4, gaps: 0, missed: 0, bad: 0, replayedBatches: 3, duplicates: 1 });
  });

  it('says that the replay was not answered, and goes on live', async () => {
    const base = await freePorts(2);
    const endpoint = `tcp://127.0.0.1:${base}`;
    await using publisher = await TestPublisher.bound(endpoint);
    const watched = watch({ endpoint, replayEndpoint: `tcp://127.0.0.1:${base + 1}`, replayTimeoutMs: 100 });
    await until(() => watched.replayEnds.length === 1, 'end of replay');
    await publisher.batch(9, [stored(1)]);
    await until(() => watched.records.length === 2, 'records');
    expect(await watched.stop()).toMatchObject({ batches: 1, gaps: 0, missed: 0 });
    expect(watched.records.map((record) => record.event.kind)).toEqual(['error', 'stored']);
  });

  it('watches several ranks, and shows which', async () => {
    const base = await freePorts(2);
    await using rank0 = await TestPublisher.bound(`tcp://127.0.0.1:${base}`);
    await using rank1 = await TestPublisher.bound(`tcp://127.0.0.1:${base + 1}`);
    const watched = watch({ endpoint: `tcp://127.0.0.1:${base}`, ranks: 2 });
    await until(() => watched.states.includes('0 connected') && watched.states.includes('1 connected'), 'connections');
    await rank0.batch(0, [stored(1)]);
    await until(() => watched.records.length === 1, 'first');
    await rank1.batch(0, [stored(1)], { rank: 1 });
    await until(() => watched.records.length === 2, 'second');
    await watched.stop();
    expect(watched.records.map((record) => formatText(record, { hasRanks: true }).slice(13, 16))).toEqual(['r0 ', 'r1 ']);
    expect(formatJson(watched.records[1] as WatchRecord)).toMatchObject({ kind: 'stored', rank: 1, seq: 0, hashes: ['0000000000000001'], hashesDecimal: ['1'], parent: null, tokens: [1, 2] });
  });

  it('ends at once when already aborted, and refuses endpoints that cannot be right', async () => {
    expect(await watch({ endpoint: `tcp://127.0.0.1:${await freePort()}` }).stop()).toMatchObject({ batches: 0 });
    await expect(watch({ endpoint: 'tcp://*:5557' }).stop()).rejects.toThrow(/connect to its host name/);
  });
});
