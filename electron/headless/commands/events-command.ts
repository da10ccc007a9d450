/** `pdscope events`: print one publisher's KV-cache events. */
import type { Command } from 'commander';
import type { CommandContext } from '../command-context.ts';
import { EXIT_CODES_HELP } from '../exit-codes.ts';
import { wholeNumber } from './option-parsers.ts';

const HELP = `
One line per event; gaps, what a replay filled of them, restarts and messages that cannot be decoded
are lines too. Runs until Ctrl+C, then prints a summary to stderr: events by kind, gaps, input that was
not as it should be, what is resident, and a lower bound of cache hits. Hashes are hexadecimal; --json
has them in decimal as well.

--filter takes what the KV events view takes, e.g. type:stored,removed medium:gpu blocks>8 token:1234
hash:c910 -lora:*. There is one instance here, so instance:P0 finds nothing: ranks are told apart by
rank:1. With --stats the lines are totals, one a second; with --json they are objects, the summary the
last of them. With both, what matches is counted beside the totals, which stay those of everything.

Examples:
  pdscope events tcp://10.0.0.1:5557
  pdscope events tcp://10.0.0.1:5557 --replay tcp://10.0.0.1:5558 --from 0
  pdscope events tcp://10.0.0.1:5557 --ranks 4 --json | jq 'select(.kind == "stored")'
  pdscope events tcp://10.0.0.1:5557 --filter 'type:removed,gap,lost'
  pdscope events tcp://10.0.0.1:5557 --replay tcp://10.0.0.1:5558 --stats
  pdscope events tcp://10.0.0.1:5557 --stats --filter 'medium:cpu type:stored'
  pdscope events 'tcp://*:5557' --bind

${EXIT_CODES_HELP}`;

export interface EventsFlags {
  readonly replay?: string;
  readonly from?: number;
  readonly topic: string;
  readonly bind?: boolean;
  readonly ranks: number;
  readonly count?: number;
  readonly json?: boolean;
  readonly filter?: string;
  readonly stats?: boolean;
}

export function addEventsCommand(program: Command, { output }: CommandContext): void {
  program
    .command('events')
    .description('Print the KV-cache events of one engine as they come.')
    .argument('<endpoint>', 'PUB socket of rank 0, e.g. tcp://10.0.0.1:5557')
    .option('--replay <endpoint>', 'ROUTER socket of rank 0: first print what the engine still keeps, and fill gaps')
    .option('--from <sequence>', 'first batch to replay (default: all the engine keeps)', wholeNumber(0, Number.MAX_SAFE_INTEGER))
    .option('--topic <prefix>', 'only topics that begin with this', '')
    .option('--bind', 'bind instead of connecting, for engines whose publisher connects')
    .option('--ranks <number>', 'data-parallel ranks: port, port + 1, ...', wholeNumber(1, 1024), 1)
    .option('--count <number>', 'end after this many lines', wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .option('--json', 'one JSON object per line, complete')
    .option('--filter <text>', 'only lines that match; with --stats, count what matches, too')
    .option('--stats', 'a line per second instead of a line per event')
    .addHelpText('after', HELP)
    .action(async (endpoint: string, flags: EventsFlags) => {
      const { printEvents } = await import('../events.ts');
      await printEvents(endpoint, flags, output);
    });
}
