/**
 * The two-leg demo protocol (vLLM's disagg_proxy_demo.py): the prefill leg with one token, its answer discarded, then
 * the client's own bytes to a decode instance. The pair finds its KV by itself (a shared store). Nothing is handed
 * over, so each leg can be repeated by itself.
 */
import { reasonAgainstHandoff } from '../client-request.ts';
import { prefillBody } from '../prefill-body.ts';
import type { Connector } from './connector.ts';

export const plainConnector: Connector = {
  name: 'plain',
  async run(context) {
    const { request } = context;
    const reason = reasonAgainstHandoff(request.json);
    if (reason === undefined) {
      const { body, rewrites } = prefillBody(request);
      await context.repeat('prefill', (instance) => context.call({ kind: 'prefill', instance, body, rewrites }));
    } else {
      context.note('decode_only', reason);
    }
    const rewrites = reason === undefined ? [] : [{ field: '(prefill leg)', to: `left out: ${reason}` }];
    return context.repeat('decode', (instance) => context.open({ kind: 'decode', instance, body: request.body, rewrites }));
  },
};
