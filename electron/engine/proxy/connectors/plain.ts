/**
 * The two-leg demo protocol (vLLM's disagg_proxy_demo.py): the prefill leg with one token, its answer discarded, then
 * the client's own bytes to a decode instance. The pair finds its KV by itself (a shared store). Nothing is handed
 * over, so each leg can be repeated by itself.
 */
import { reasonAgainstHandoff } from '../client-request.ts';
import { prefillBody } from '../prefill-body.ts';
import type { Connector } from './connector.ts';
import { decodeOnlyVerdict } from './decode-only.ts';
import { decodeOnHolder } from './prefill-skip.ts';

export const plainConnector: Connector = {
  name: 'plain',
  legs: ['prefill', 'decode'],
  status: () => ({
    connector: 'plain',
    summary: 'Serial: prefill with one token, then the same request to decode; the pair finds its KV in a shared store.',
    notices: [],
    facts: [],
    tables: [],
  }),
  async run(context) {
    const { request } = context;
    const reason = reasonAgainstHandoff(request.json);
    const holder = reason === undefined ? context.decodeHolder?.() : undefined;
    if (holder !== undefined) return decodeOnHolder(context, holder);
    if (reason === undefined) {
      const { body, rewrites } = prefillBody(request);
      await context.repeat('prefill', (target) => context.call({ kind: 'prefill', ...target, body, rewrites }));
    } else {
      context.report(decodeOnlyVerdict(reason, 'info'));
    }
    const rewrites = reason === undefined ? [] : [{ field: '(prefill leg)', to: `left out: ${reason}` }];
    return context.repeat('decode', (target) => context.open({ kind: 'decode', ...target, body: request.body, rewrites }));
  },
};
