/** `pdscope call` and `pdscope link`: talk to a pdscope that runs. */
import type { Command } from 'commander';
import type { CommandContext } from '../command-context.ts';

const CALL_HELP = `
Without --control, the newest pdscope of this user on this machine is asked.
The answer is JSON on stdout. Without an operation, they are listed.

Examples:
  pdscope call
  pdscope call state.get
  pdscope call instance.add '{"role":"decode","url":"10.0.0.3:8200"}'
  pdscope call instance.drain '{"id":"d0"}'
  pdscope call policy.set '{"policy":"power-of-two"}' --control http://127.0.0.1:7080 --token "$PDSCOPE_TOKEN"`;

export interface ControlFlags {
  readonly control?: string;
  readonly token?: string;
}

export function addCallCommand(program: Command, { output }: CommandContext): void {
  withControl(program.command('call'))
    .description('Run an operation on a running pdscope: what the buttons of the dashboard do.')
    .argument('[operation]', 'name, e.g. state.get')
    .argument('[input]', 'its input as JSON', '{}')
    .addHelpText('after', CALL_HELP)
    .action(async (operation: string | undefined, input: string, flags: ControlFlags) => {
      const { callOperation, findControl, listOperations } = await import('../control-client.ts');
      const control = await findControl(flags, process.env);
      if (operation === undefined) {
        for (const { name, summary } of await listOperations(control)) output.out(`${name.padEnd(18)} ${summary}\n`);
        return;
      }
      output.out(`${JSON.stringify(await callOperation(control, operation, input), undefined, 2)}\n`);
    });
}

export function addLinkCommand(program: Command, { output }: CommandContext): void {
  withControl(program.command('link'))
    .description('Print a new link to the dashboard of a running pdscope; each link signs in one browser, once.')
    .action(async (flags: ControlFlags) => {
      const { findControl, newLoginLink } = await import('../control-client.ts');
      output.out(`${await newLoginLink(await findControl(flags, process.env))}\n`);
    });
}

function withControl(command: Command): Command {
  return command
    .option('--control <url>', 'control address, e.g. http://127.0.0.1:7080')
    .option('--token <token>', 'API token; default: PDSCOPE_TOKEN, else the running one on this machine');
}
