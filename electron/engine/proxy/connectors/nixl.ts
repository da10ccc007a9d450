/**
 * NIXL pull (NixlConnector, NixlPullConnector): serial. The prefill leg asks to keep its KV for a remote decode; the
 * `kv_transfer_params` of its answer go to the decode instance as the very bytes they came in, unknown fields and
 * 64-bit numbers included (vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py).
 *
 * Invariants: params are used once. A decode leg that failed may have begun to pull, so it is never repeated with the
 * same params; the whole pair runs again. Without params (an aborted prefill answers null) the decode instance
 * computes the prompt itself: that run is decode-only and is recorded as such, not taken for a handoff.
 */
import { reasonAgainstHandoff, type ClientRequest } from '../client-request.ts';
import { memberValue } from '../json-members.ts';
import { decodeBody, describeRewrite, prefillBody } from '../prefill-body.ts';
import type { Answer, Connector, LegContext } from './connector.ts';
import { decodeOnlyVerdict } from './decode-only.ts';
import { KV_TRANSFER_PARAMS } from './transfer-params.ts';

/** Only do_remote_decode is tested by the engine; the nulls are customary. */
const PREFILL_PARAMS = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};
const PREFILL_PARAMS_JSON = JSON.stringify(PREFILL_PARAMS);

export const nixlConnector: Connector = {
  name: 'nixl',
  legs: ['prefill', 'decode'],
  status: () => ({
    connector: 'nixl',
    summary: 'Serial: prefill keeps its blocks, its kv_transfer_params go to decode, decode pulls.',
    notices: [],
    facts: [],
    tables: [],
  }),
  async run(context) {
    const { request } = context;
    const reason = reasonAgainstHandoff(request.json) ?? reasonAgainstPromptList(request);
    if (reason !== undefined) return decodeOnly(context, `left out: ${reason}`, '(prefill leg)', 'info');

    const { body, rewrites } = prefillBody(request, { transferParams: PREFILL_PARAMS_JSON });
    const prefill = await context.repeat('prefill', (target) =>
      context.call({ kind: 'prefill', ...target, body, rewrites, kvTransferParams: PREFILL_PARAMS_JSON }),
    );
    const params = memberValue(prefill.body, prefill.members, KV_TRANSFER_PARAMS);
    if (params === undefined || params[0] !== OPEN_BRACE) {
      const what = params === undefined ? 'missing' : params.toString('utf8', 0, 100);
      return decodeOnly(context, `none: the prefill answer's kv_transfer_params were ${what}`, KV_TRANSFER_PARAMS, 'warning');
    }
    return context.open({
      kind: 'decode',
      ...context.choose('decode'),
      ...decodeBody(request, params),
      kvTransferParams: prefill.facts.kvTransferParams,
    });
  },
};

const OPEN_BRACE = 0x7b;

/** No handoff, so a failed decode leg can simply be repeated on another instance. */
function decodeOnly(context: LegContext, why: string, field: string, severity: 'info' | 'warning'): Promise<Answer> {
  context.report(decodeOnlyVerdict(why, severity));
  const { body } = context.request;
  return context.repeat('decode', (target) =>
    context.open({ kind: 'decode', ...target, body, rewrites: [describeRewrite(field, undefined, why)] }),
  );
}

/** Each prompt of a list is a sequence of its own, but the answer has room for one set of params. */
function reasonAgainstPromptList({ json }: ClientRequest): string | undefined {
  const prompt = json['prompt'];
  if (!Array.isArray(prompt) || prompt.length < 2 || typeof prompt[0] === 'number') return undefined;
  return `${prompt.length} prompts: the handoff serves one sequence`;
}
