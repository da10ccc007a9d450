/** A headless pdscope as a person starts it: demo cluster, free ports, a fixed token. */
import { randomBytes } from 'node:crypto';
import { startCommand } from './command.ts';
import { operationCaller, type OperationCaller } from './operation-caller.ts';

export interface HeadlessHost extends AsyncDisposable {
  /** Signs a browser in; with a fixed token it can be used by every test. */
  readonly loginUrl: string;
  /** Origin of the control port. */
  readonly url: string;
  /** Runs an operation over HTTP, as a program would; for arranging and checking what a test looks at. */
  readonly call: OperationCaller;
}

/** Starts the host with `args` after `serve`. */
export async function startHeadlessHost(args: readonly string[] = ['--demo']): Promise<HeadlessHost> {
  const token = randomBytes(24).toString('base64url');
  const command = await startCommand(['serve', ...args, '--port', '0', '--control-port', '0', '--no-open'], /(http:\/\/\S+\/login\?token=\S+)/, {
    PDSCOPE_TOKEN: token,
  });
  const { origin } = new URL(command.printed);
  return {
    loginUrl: command.printed,
    url: origin,
    call: operationCaller(origin, token),
    [Symbol.asyncDispose]: () => command[Symbol.asyncDispose](),
  };
}
