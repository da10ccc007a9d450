/** Runs `pdscope events`. */
import { formatJson, formatSummary, formatText } from '#engine/kv-events/format-event.ts';
import { watchEvents, type WatchSummary } from '#engine/kv-events/watch.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { ProgramOutput } from './command-context.ts';
import type { EventsFlags } from './commands/events-command.ts';
import { stopOnSignals } from './shutdown.ts';

/** Prints until a signal, `--count`, or a closed pipe ends it. Throws PdscopeError for a bad endpoint or bad flags. */
export async function printEvents(endpoint: string, flags: EventsFlags, output: ProgramOutput): Promise<void> {
  const { replay, from, topic, bind, ranks, count = Number.POSITIVE_INFINITY, json } = flags;
  if (from !== undefined && replay === undefined) throw new PdscopeError('bad_usage', '--from needs --replay: only the replay socket has what was sent before.');
  const ending = new AbortController();
  let watching: Promise<WatchSummary> | undefined;
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
  let printed = 0;
  try {
    watching = watchEvents({
      endpoint,
      topic,
      ranks,
      bind: bind === true,
      signal: ending.signal,
      ...(replay !== undefined && { replayEndpoint: replay }),
      ...(from !== undefined && { replayFrom: from }),
      onRow: (record) => {
        if (printed >= count) return;
        printed += 1;
        output.out(`${json === true ? JSON.stringify(formatJson(record)) : formatText(record, { hasRanks: ranks > 1 })}\n`);
        if (printed >= count) ending.abort();
      },
      onState: (rank, phase, reason) => {
        output.err(`pdscope: ${ranks > 1 ? `rank ${rank} ` : ''}${phase}${reason === undefined ? '' : `: ${reason}`}\n`);
      },
    });
    output.err(`pdscope: ${formatSummary(await watching)}\n`);
  } finally {
    removeHandlers();
    process.stdout.off('error', endOnClosedPipe);
  }
}
