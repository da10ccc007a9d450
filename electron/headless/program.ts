/**
 * The command line: what each command takes and says about itself. Nothing heavy is imported here, so that `--help` is
 * instant and `serve` loads only what it runs.
 */
import { Command, CommanderError } from 'commander';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { CommandContext, ProgramOutput } from './command-context.ts';
import { addCallCommand, addLinkCommand } from './commands/call-command.ts';
import { addEventsCommand } from './commands/events-command.ts';
import { withPluralFlags } from './commands/reference-flags.ts';
import { addServeCommand } from './commands/serve-command.ts';
import { addSimCommand } from './commands/sim-command.ts';
import { EXIT, EXIT_CODES_HELP, exitCodeOf } from './exit-codes.ts';

const EXAMPLES = `
Examples:
  pdscope serve --demo                     a simulated cluster with traffic, to look around
  pdscope serve --prefill 10.0.0.1:8100 --decode 10.0.0.2:8200
                                           a proxy on :8000 over two vLLM instances
  pdscope events tcp://10.0.0.1:5557       print KV-cache events as they come
  pdscope sim --role prefill --port 8100   one simulated instance
  pdscope call state.get                   ask a pdscope that runs on this machine

${EXIT_CODES_HELP}`;

const STREAMS: ProgramOutput = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/** Runs one command. Answers its exit code, or undefined when it goes on running and ends the process itself. */
export async function runProgram(args: readonly string[], output: ProgramOutput = STREAMS): Promise<number | undefined> {
  let code: number | undefined = EXIT.ok;
  const program = new Command('pdscope')
    .description('An oscilloscope for prefill/decode disaggregated LLM serving: a P/D proxy, a KV-event subscriber and a live dashboard.')
    .version(__PDSCOPE_VERSION__, '-V, --version')
    .configureOutput({ writeOut: output.out, writeErr: output.err })
    .configureHelp({ helpWidth: 100 })
    .showSuggestionAfterError()
    .showHelpAfterError('(--help lists what is allowed)')
    .exitOverride()
    .addHelpText('after', EXAMPLES);
  const context: CommandContext = {
    output,
    keepRunning: () => {
      code = undefined;
    },
  };
  addServeCommand(program, context);
  addSimCommand(program, context);
  addEventsCommand(program, context);
  addCallCommand(program, context);
  addLinkCommand(program, context);
  if (args.length === 0) {
    output.err(program.helpInformation());
    return EXIT.usage;
  }
  try {
    await program.parseAsync(withPluralFlags(args), { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    output.err(`pdscope: ${errorMessage(error)}\n`);
    // A broken invariant is not the person's doing: where it happened belongs in the report.
    if (!(error instanceof PdscopeError) && error instanceof Error) output.err(`${error.stack ?? ''}\n`);
    return exitCodeOf(error);
  }
}
