/** `pdscope events` over a scripted engine: filters, totals, and the summary at its end. */
import { describe, expect, it } from 'vitest';
import type { EventsFlags } from '../../../electron/headless/commands/events-command.ts';
import { printEvents } from '../../../electron/headless/events.ts';
import { ScriptedEngine, enginePorts } from '../kv-events/scripted-engine.ts';
import { TestPublisher, freePort, removed, stored, until } from '../kv-events/publisher.ts';

interface Run {
  readonly out: string[];
  readonly err: string[];
  readonly done: Promise<void>;
}

function run(endpoint: string, flags: Partial<EventsFlags>): Run {
  const out: string[] = [];
  const err: string[] = [];
  const done = printEvents(endpoint, { topic: '', ranks: 1, ...flags }, { out: (text) => out.push(text.trimEnd()), err: (text) => err.push(text.trimEnd()) });
  return { out, err, done };
}

/** Ends what prints, as `| head` does. */
function closePipe(): void {
  process.stdout.emit('error', Object.assign(new Error('closed'), { code: 'EPIPE' }));
}

describe('printEvents', () => {
  it('prints only what the filter wants, of replayed and live batches alike', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    for (let hash = 1; hash <= 5; hash += 1) await engine.publish(hash);
    const { out, done } = run(endpoint, { replay: replayEndpoint, json: true, filter: 'type:stored hash:0000000000000003,0000000000000007', count: 2 });
    await until(() => out.length === 1, 'the replayed one');
    await engine.subscribed();
    await engine.publish(6);
    await engine.publish(7);
    await done;
    expect(out.map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ kind: 'stored', seq: 2, replayed: true, hashes: ['0000000000000003'] }),
      expect.objectContaining({ kind: 'stored', seq: 6, hashes: ['0000000000000007'] }),
    ]);
  });

  it('finds gaps and what became of them by type', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    await engine.publish(1);
    const { out, err, done } = run(endpoint, { replay: replayEndpoint, filter: 'type:gap,filled,lost', count: 3 });
    await until(() => out.length === 1, 'history');
    await engine.subscribed();
    await engine.publish(2, { isMissed: true });
    await engine.publish(3, { isMissed: true });
    await engine.publish(4);
    await done;
    expect(out.map((line) => line.slice(13).replaceAll(/ +/gu, ' '))).toEqual([
      '#0 filled 1 batch from before this subscription came by replay, up to 0',
      '#3 gap 2 batches (1 to 2) are missing; asking for them',
      '#3 filled 2 batches (1 to 2) came by replay',
    ]);
    expect(err.slice(-6)).toEqual([
      expect.stringMatching(/^pdscope: events: 4 stored \(4 blocks\), 0 removed \(0 blocks\), 0 cleared, 0 of unknown kind; [\d.]+ batches\/s, \d+ bytes$/u),
      expect.stringMatching(/^pdscope: stream: events as array, hashes as int, 4 batches by replay, 0 duplicates, 1 epoch, lag -, 0 refused by the own queue$/u),
      'pdscope: gaps: 1 found, 1 filled; batches: 2 missed, 2 filled, 0 lost',
      'pdscope: odd input: none',
      'pdscope: cache: 4 blocks resident; no hit seen: engines announce them only for requests with kv_cache_report_mode "full", and no known prefix was branched from',
      expect.stringMatching(/^pdscope: 4 batches, 4 events in [\d.]+ s \([\d.]+\/s\), 1 gap, 0 batches lost, 0 bad$/u),
    ]);
  });

  it('prints totals once a second, as text and as JSON, with the summary as the last object', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    await engine.publish(1);
    await engine.publish(2);
    // Announced again: what an engine does for requests that ask for it.
    await engine.publish(1);
    const counted = [run(endpoint, { replay: replayEndpoint, stats: true, count: 2 }), run(endpoint, { replay: replayEndpoint, stats: true, json: true, count: 2 })];
    await Promise.all(counted.map(({ done }) => done));
    expect(counted.map(({ out }) => out.length)).toEqual([2, 3]);
    // The replay may be answered after the first of them.
    const text = run(endpoint, { replay: replayEndpoint, stats: true });
    const json = run(endpoint, { replay: replayEndpoint, stats: true, json: true });
    await until(() => text.out.at(-1)?.endsWith('resident 2') === true && json.out.at(-1)?.includes('"batches":3,') === true, 'the replayed ones in the totals');
    closePipe();
    await Promise.all([text.done, json.done]);
    expect(text.out.at(-1)).toMatch(/^\d\d:\d\d:\d\d {1}\d+ batches\/s {2}\d+ events\/s {2}\+\d+ -0 blocks\/s {2}gaps 0 \(0 missed, 0 filled, 0 lost\) {2}lag - {2}resident 2$/u);
    expect(json.out.slice(-2).map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ kind: 'stats', batches: 3, residentBlocks: 2 }),
      expect.objectContaining({
        kind: 'summary', batches: 3, replayedBatches: 3, eventsByKind: { stored: 3, removed: 0, cleared: 0, unknown: 0, bad: 0 },
        reusedBlocks: 1, branchedBlocks: 0, odd: expect.objectContaining({ duplicateStores: 1, unknownRemovals: 0 }) as unknown, hitShareEstimate: 1 / 3, isResidentExact: true, encoding: 'array', hashForm: 'int',
      }),
    ]);
    expect(json.err.find((line) => line.includes('cache:'))).toBe('pdscope: cache: 2 blocks resident; hits at least 33.3 % of 3 blocks (1 announced again, 0 before branches of known prefixes)');
  });

  it('counts what a filter lets through beside the totals, as text and as JSON', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    for (const hash of [1, 2, 1, 3]) await engine.publish(hash);
    const text = run(endpoint, { replay: replayEndpoint, stats: true, filter: 'type:stored,filled' });
    const json = run(endpoint, { replay: replayEndpoint, stats: true, json: true, filter: 'hash:0000000000000001' });
    await until(() => text.out.at(-1)?.endsWith('(4 events, 1 notice in all)') === true && json.out.at(-1)?.includes('"events":4,') === true, 'all that is kept');
    closePipe();
    await Promise.all([text.done, json.done]);
    expect(text.out.at(-1)).toMatch(/ {2}lag - {2}resident 3 {2}matching \d+ events\/s {2}\+\d+ -0 blocks\/s \(4 events, 1 notice in all\)$/u);
    expect(text.err.at(-7)).toBe('pdscope: matching "type:stored,filled": 4 of 4 events (100.0 %), 4 stored (4 blocks), 0 removed (0 blocks), 0 cleared, 0 of unknown kind, 0 not readable, and 1 notice; all other figures are of everything');
    const matching = { filter: 'hash:0000000000000001', events: 2, eventsByKind: { stored: 2, removed: 0, cleared: 0, unknown: 0, bad: 0 }, notices: 0, blocksStored: 2, blocksRemoved: 0 };
    expect(json.out.slice(-2).map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ kind: 'stats', events: 4, matching }),
      expect.objectContaining({ kind: 'summary', events: 4, blocksStored: 4, residentBlocks: 3, matching }),
    ]);
    expect(json.err.at(-7)).toContain('2 of 4 events (50.0 %), 2 stored (2 blocks)');
  });

  it('sums up what came and was not as it should be, and estimates hits from branches', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using publisher = await TestPublisher.bound(endpoint);
    const { out, err, done } = run(endpoint, { stats: true });
    await until(() => err.some((line) => line.includes('connected')), 'connection');
    const named = { type: 'BlockStored', block_hashes: [5], parent_block_hash: 2, token_ids: [1, 2], block_size: 2, lora_id: null, medium: 'GPU', lora_name: null, novelty: 1 };
    await publisher.batch(0, [stored(1), stored(2, 1), stored(3, 2), stored(3, 2), named]);
    await publisher.batch(1, [removed(77), stored(9, 88), ['BlockInactive', [1]], ['BlockStored', 'no hashes']]);
    await publisher.send([Buffer.alloc(0), Buffer.from([0, 0, 0, 0, 0, 0, 0, 2]), Buffer.from([0xc1])]);
    await publisher.batch(3, [['BlockStored', [Buffer.alloc(32, 4)], null, [1, 2], 2, null, 'GPU']], { ts: 'soon' });
    await until(() => out.at(-1)?.endsWith(' 6 odd') === true, 'the last batch in the totals');
    closePipe();
    await done;
    expect(out.at(-1)).toMatch(/ {2}lag - {2}resident .* {2}2 bad {2}6 odd$/u);
    expect(err.slice(-3, -1)).toEqual([
      'pdscope: odd input: 1 message not readable, 1 event not readable, 1 event of unknown kind, 1 field unknown, 1 timestamp not a time, 1 removal of blocks not held, '
        + '1 store after a block not held, 1 block stored while held already, 1 change of the form of hashes',
      'pdscope: cache: about 6 blocks resident; hits at least 22.2 % of 9 blocks (0 announced again, 2 before branches of known prefixes)',
    ]);
  });

  it('says once that nobody is there, however often it tries', async () => {
    const { out, err, done } = run(`tcp://127.0.0.1:${(await enginePorts()).pubPort}`, { stats: true });
    await until(() => out.length >= 4 && err.length >= 2, 'a refused connection, and time for more');
    closePipe();
    await done;
    expect(err.at(-2)).toBe('pdscope: cache: not known, no batch was received');
    expect(err.slice(0, -6)).toEqual(['pdscope: connecting', expect.stringMatching(/^pdscope: connecting: cannot reach tcp:\S+ yet; trying again$/u)]);
  });

  it('ends with the reason when a socket cannot be made, rather than wait for what cannot come', async () => {
    const endpoint = `tcp://127.0.0.1:${await freePort()}`;
    await using _taken = await TestPublisher.bound(endpoint);
    await expect(run(endpoint, { bind: true }).done).rejects.toMatchObject({ code: 'port_in_use', message: expect.stringContaining(`cannot bind ${endpoint}: Address already in use. Choose another port`) });
    await expect(run('ipc:///nowhere/at/all', { bind: true }).done).rejects.toMatchObject({ code: 'kv_stream_failed', message: expect.stringContaining('an address of this machine') });
    const { err, done } = run('tcp://bad host:5557', { ranks: 2 });
    await expect(done).rejects.toThrow('rank 0 cannot connect tcp://bad host:5557: Invalid argument. Check the endpoint.');
    expect(err).toEqual([]);
  });

  it('refuses a filter that means nothing, and says where', async () => {
    await expect(run('tcp://127.0.0.1:1', { filter: 'type:stored mediun:gpu' }).done).rejects.toThrow('--filter, at character 13: There is no field "mediun". Did you mean medium?');
    await expect(run('tcp://127.0.0.1:1', { filter: 'blocks>', stats: true }).done).rejects.toThrow('--filter, at character');
    await expect(run('tcp://127.0.0.1:1', { from: 3 }).done).rejects.toThrow('--from needs --replay');
  });

  it('asks from where it is told, and counts what is not there as missed', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started({ ...ports, bufferSteps: 2 });
    for (let hash = 0; hash < 6; hash += 1) await engine.publish(hash);
    const { out, err, done } = run(endpoint, { replay: replayEndpoint, from: 1, filter: 'type:lost,stored', count: 3 });
    await done;
    expect(engine.questions).toEqual([1]);
    expect(out.map((line) => line.slice(13, 28).trim())).toEqual(['#3      lost', '#4      stored', '#5      stored']);
    expect(err.at(-4)).toBe('pdscope: gaps: 1 found, 0 filled; batches: 3 missed, 0 filled, 3 lost');
  });

  it('says when the engine keeps nothing from where it is told to begin', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    for (let hash = 0; hash < 3; hash += 1) await engine.publish(hash);
    const { out, err, done } = run(endpoint, { replay: replayEndpoint, from: 100, count: 1 });
    await until(() => err.includes('pdscope: the engine keeps no batch from 100 on'), 'the note');
    await engine.subscribed();
    await engine.publish(7);
    await done;
    expect(engine.questions).toEqual([100]);
    expect(out).toHaveLength(1);
    expect(out[0]).toMatch(/#3 +stored/u);
  });
});
