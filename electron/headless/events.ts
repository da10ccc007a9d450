/** Runs `pdscope events`. */
import { formatJson, formatText } from '#engine/kv-events/format-event.ts';
import { formatMatchPart, formatStatsLine, formatSummary, summaryJson } from '#engine/kv-events/format-watch.ts';
import { MatchCounter, type MatchStats } from '#engine/kv-events/match-stats.ts';
import { SEARCHED_KV_FIELDS } from '#engine/kv-events/searched-fields.ts';
import { watchEvents, type WatchOptions, type WatchRecord } from '#engine/kv-events/watch.ts';
import { WatchRows } from '#engine/kv-events/watch-row.ts';
import type { WatchStats } from '#engine/kv-events/watch-stats.ts';
import { PdscopeError } from '#shared/errors.ts';
import { compileFilter } from '#shared/filter/compile.ts';
import type { ProgramOutput } from './command-context.ts';
import type { EventsFlags } from './commands/events-command.ts';
import { stopOnSignals } from './shutdown.ts';

/**
 * Prints until a signal, `--count`, or a closed pipe ends it. Throws PdscopeError for a bad endpoint or bad flags, and when a
 * socket cannot be made: nobody would read for how long nothing comes.
 */
export async function printEvents(endpoint: string, flags: EventsFlags, output: ProgramOutput): Promise<void> {
  const { replay, from, topic, bind, ranks, count = Number.POSITIVE_INFINITY } = flags;
  const filter = readFlags(flags);
  const ending = new AbortController();
  let watching: Promise<WatchStats> | undefined;
  let failure: PdscopeError | undefined;
  const removeHandlers = stopOnSignals({
    say: (text) => output.err(`${text}\n`),
    announce: () => ending.abort(),
    close: async () => {
      await watching;
    },
    // The summary is still to be printed, and the process ends by itself after it; a second signal ends it at once.
    exit: (code) => {
      if (code !== 0) process.exit(code);
    },
  });
  // `| head` closes the pipe: that is an end, not a failure.
  const endOnClosedPipe = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error;
    ending.abort();
  };
  process.stdout.on('error', endOnClosedPipe);
  const said = new Map<number, string>();
  const asked = new Set<number>();
  const whoIs = (rank: number): string => (ranks > 1 ? `rank ${rank} ` : '');
  let printed = 0;
  const print = (line: string): void => {
    if (printed >= count) return;
    printed += 1;
    output.out(`${line}\n`);
    if (printed >= count) ending.abort();
  };
  try {
    watching = watchEvents({
      endpoint,
      topic,
      ranks,
      bind: bind === true,
      signal: ending.signal,
      ...(replay !== undefined && { replayEndpoint: replay }),
      ...(from !== undefined && { replayFrom: from }),
      ...printers(flags, filter, print),
      onReplayEnd: (rank, { status, messages }) => {
        // Later questions are about gaps.
        const isFirst = !asked.has(rank);
        asked.add(rank);
        if (isFirst && from !== undefined && status === 'complete' && messages === 0) output.err(`pdscope: ${whoIs(rank)}the engine keeps no batch from ${from} on\n`);
      },
      onState: (rank, phase, reason) => {
        const who = whoIs(rank);
        if (phase === 'failed') {
          failure ??= failed(`${who}${reason ?? phase}`, bind === true);
          ending.abort();
          return;
        }
        const text = `pdscope: ${who}${phase}${reason === undefined ? '' : `: ${reason}`}\n`;
        // Said once, not with every attempt.
        if (said.get(rank) !== text) output.err(text);
        said.set(rank, text);
      },
    });
    const stats = await watching;
    if (failure !== undefined && stats.batches === 0) throw failure;
    const matching = filter?.counter.stats();
    if (flags.json === true && flags.stats === true) output.out(`${JSON.stringify(summaryJson(stats, matching))}\n`);
    for (const line of formatSummary(stats, matching)) output.err(`pdscope: ${line}\n`);
    if (failure !== undefined) throw failure;
  } finally {
    removeHandlers();
    process.stdout.off('error', endOnClosedPipe);
  }
}

/** A socket that cannot be made, or that ended. `reason` is what libzmq says. */
function failed(reason: string, isBound: boolean): PdscopeError {
  if (/address (?:already )?in use/iu.test(reason)) return new PdscopeError('port_in_use', `${reason}. Choose another port, or stop what listens there.`);
  const advice = isBound ? 'With --bind, the endpoint is an address of this machine, e.g. tcp://*:5557.' : 'Check the endpoint.';
  return new PdscopeError('kv_stream_failed', `${reason}. ${advice}`);
}

/** What `--filter` lets through, and the count of it. */
interface RecordFilter {
  readonly matches: (record: WatchRecord) => boolean;
  readonly counter: MatchCounter;
}

/** What goes to standard output: a line per record that matches, or per second. */
function printers({ json, stats, ranks }: EventsFlags, filter: RecordFilter | undefined, print: (line: string) => void): Pick<WatchOptions, 'onRow' | 'onStats'> {
  const isWanted = (record: WatchRecord): boolean => {
    if (filter === undefined) return true;
    const isMatch = filter.matches(record);
    if (isMatch) filter.counter.add(record);
    return isMatch;
  };
  if (stats !== true) {
    return {
      onRow: (record) => {
        if (isWanted(record)) print(json === true ? JSON.stringify(formatJson(record)) : formatText(record, { hasRanks: ranks > 1 }));
      },
    };
  }
  let before: WatchStats | undefined;
  let matchingBefore: MatchStats | undefined;
  return {
    ...(filter !== undefined && { onRow: isWanted }),
    onStats: (now) => {
      const matching = filter?.counter.stats();
      const seconds = now.seconds - (before?.seconds ?? 0);
      if (json === true) print(JSON.stringify({ ...summaryJson(now, matching), kind: 'stats', atUnixMs: Date.now() }));
      else print(formatStatsLine(now, before, Date.now()) + (matching === undefined ? '' : `  ${formatMatchPart(matching, { matching: matchingBefore, seconds })}`));
      before = now;
      matchingBefore = matching;
    },
  };
}

/** Checks what commander cannot, and compiles the filter; undefined without one. */
function readFlags({ replay, from, filter }: EventsFlags): RecordFilter | undefined {
  if (from !== undefined && replay === undefined) throw new PdscopeError('bad_usage', '--from needs --replay: only the replay socket has what was sent before.');
  if (filter === undefined) return undefined;
  const compiled = compileFilter(filter, SEARCHED_KV_FIELDS);
  if (!compiled.ok) throw new PdscopeError('bad_usage', `--filter, at character ${compiled.at + 1}: ${compiled.error}`);
  const rows = new WatchRows();
  return { matches: (record) => compiled.matches(rows.rowOf(record)), counter: new MatchCounter(filter) };
}
