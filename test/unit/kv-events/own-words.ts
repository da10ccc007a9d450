/** Events share arrays of words, so that what is equal may lie in different places: for comparing, and for tests of who reads them. */
import type { BlockHashes } from '#engine/kv-events/block-hashes.ts';
import type { PayloadResult } from '#engine/kv-events/decode-batch.ts';
import type { KvEvent } from '#engine/kv-events/kv-event.ts';
import { copyOfRun, runOf, type WordRun } from '#engine/kv-events/word-run.ts';

/** The same result, every run of words an array of its own. */
export function withOwnWords(result: PayloadResult): PayloadResult {
  return result.ok ? { ...result, batch: { ...result.batch, events: result.batch.events.map(eventWithOwnWords) } } : result;
}

/** The same words amid others. */
export function amidOthers<Run extends WordRun>(run: Run): Run {
  return { ...run, words: Uint32Array.of(0xdead, ...copyOfRun(run), 0xbeef), start: 1 };
}

function eventWithOwnWords(event: KvEvent): KvEvent {
  const own = (hashes: BlockHashes): BlockHashes => ({ ...hashes, ...runOf(copyOfRun(hashes)) });
  switch (event.kind) {
    case 'stored': return { ...event, hashes: own(event.hashes), parent: event.parent === undefined ? undefined : own(event.parent), tokens: runOf(copyOfRun(event.tokens)) };
    case 'removed': case 'unknown': return { ...event, hashes: own(event.hashes) };
    case 'cleared': case 'bad': break;
  }
  return event;
}
