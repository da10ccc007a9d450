/** `pdscope events` over a scripted engine: filters, totals, and the summary at its end. */
import { describe, expect, it } from 'vitest';
import type { EventsFlags } from '../../../electron/headless/commands/events-command.ts';
import { printEvents } from '../../../electron/headless/events.ts';
import { ScriptedEngine, enginePorts } from '../kv-events/scripted-engine.ts';
import { until } from '../kv-events/publisher.ts';

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

describe('printEvents', () => {
  it('prints only what the filter wants, of replayed and live batches alike', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    for (let hash = 1; hash <= 5; hash += 1) await engine.publish(hash);
    const { out, done } = run(endpoint, { replay: replayEndpoint, json: true, filter: 'type:stored hash:0000000000000003,0000000000000007', count: 2 });
    await until(() => out.length === 1, 'the replayed one');
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
    await engine.publish(2, { isMissed: true });
    await engine.publish(3, { isMissed: true });
    await engine.publish(4);
    await done;
    expect(out.map((line) => line.slice(13).replaceAll(/ +/gu, ' '))).toEqual([
      '#0 filled 1 batch from before this subscription came by replay, up to 0',
      '#3 gap 2 batches (1 to 2) are missing; asking for them',
      '#3 filled 2 batches (1 to 2) came by replay',
    ]);
    expect(err.slice(-5)).toEqual([
      expect.stringMatching(/^pdscope: events: 4 stored \(4 blocks\), 0 removed \(0 blocks\), 0 cleared, 0 of unknown kind; [\d.]+ batches\/s, \d+ bytes$/u),
      expect.stringMatching(/^pdscope: stream: events as array, hashes as int, 4 batches by replay, 0 duplicates, 1 epoch, lag -, 0 refused by the own queue$/u),
      'pdscope: gaps: 1 found, 1 filled; batches: 2 missed, 2 filled, 0 lost',
      'pdscope: cache: 4 blocks resident; hits unknown: the engine announces reused blocks only for requests with kv_cache_report_mode "full"',
      expect.stringMatching(/^pdscope: 4 batches, 4 events in [\d.]+ s \([\d.]+\/s\), 1 gaps, 0 batches missed, 0 bad$/u),
    ]);
  });

  it('prints totals once a second, as text and as JSON, with the summary as the last object', async () => {
    const { endpoint, replayEndpoint, ...ports } = await enginePorts();
    await using engine = await ScriptedEngine.started(ports);
    await engine.publish(1);
    await engine.publish(2);
    // Announced again: what an engine does for requests that ask for it.
    await engine.publish(1);
    const text = run(endpoint, { replay: replayEndpoint, stats: true, count: 1 });
    const json = run(endpoint, { replay: replayEndpoint, stats: true, json: true, count: 2 });
    await Promise.all([text.done, json.done]);
    expect(text.out).toHaveLength(1);
    expect(text.out[0]).toMatch(/^\d\d:\d\d:\d\d {1}\d+ batches\/s {2}\d+ events\/s {2}\+\d+ -0 blocks\/s {2}gaps 0 \(0 missed, 0 filled, 0 lost\) {2}lag - {2}resident 2$/u);
    expect(json.out.map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ kind: 'stats', batches: 3, residentBlocks: 2 }),
      expect.objectContaining({ kind: 'stats', batches: 3 }),
      expect.objectContaining({
        kind: 'summary', batches: 3, replayedBatches: 3, eventsByKind: { stored: 3, removed: 0, cleared: 0, unknown: 0, bad: 0 },
        reusedBlocks: 1, hitShareEstimate: 1 / 3, isResidentExact: true, encoding: 'array', hashForm: 'int',
      }),
    ]);
    expect(json.err.find((line) => line.includes('cache:'))).toBe('pdscope: cache: 2 blocks resident; at least 33.3 % of announced blocks were hits (1 announced again)');
  });

  it('refuses a filter that means nothing, and says where', async () => {
    await expect(run('tcp://127.0.0.1:1', { filter: 'type:stored mediun:gpu' }).done).rejects.toThrow('--filter, at character 13: There is no field "mediun". Did you mean medium?');
    await expect(run('tcp://127.0.0.1:1', { filter: 'type:gap', stats: true }).done).rejects.toThrow('leave one of them out');
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
    expect(err.at(-3)).toBe('pdscope: gaps: 1 found, 0 filled; batches: 3 missed, 0 filled, 3 lost');
  });
});
