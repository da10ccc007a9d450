/** A headless pdscope as a person starts it: demo cluster, free ports, a fixed token. */
import { randomBytes } from 'node:crypto';
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';
import { startCommand } from './command.ts';

export interface HeadlessHost extends AsyncDisposable {
  /** Signs a browser in; with a fixed token it can be used by every test. */
  readonly loginUrl: string;
  /** Origin of the control port. */
  readonly url: string;
  /** Runs an operation over HTTP, as a program would; for arranging and checking what a test looks at. */
  call<N extends OperationName>(operation: N, input: OperationInput<N>): Promise<OperationOutputs[N]>;
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
    call: async (operation, input) => {
      const response = await fetch(`${origin}/api/operations/${operation}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(input),
      });
      const body = (await response.json()) as { readonly value?: OperationOutputs[typeof operation] };
      if (!response.ok || body.value === undefined) throw new Error(`${operation} answered ${response.status}: ${JSON.stringify(body)}`);
      return body.value;
    },
    [Symbol.asyncDispose]: () => command[Symbol.asyncDispose](),
  };
}
