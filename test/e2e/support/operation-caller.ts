/** Operations of a running pdscope over its control port, as a program would call them. */
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';

export type OperationCaller = <N extends OperationName>(operation: N, input: OperationInput<N>) => Promise<OperationOutputs[N]>;

/** `origin` of the control port. The call rejects with what was answered when that is no value. */
export function operationCaller(origin: string, token: string): OperationCaller {
  return async (operation, input) => {
    const response = await fetch(`${origin}/api/operations/${operation}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(input),
    });
    const body = (await response.json()) as { readonly value?: OperationOutputs[typeof operation] };
    if (!response.ok || body.value === undefined) throw new Error(`${operation} answered ${response.status}: ${JSON.stringify(body)}`);
    return body.value;
  };
}
