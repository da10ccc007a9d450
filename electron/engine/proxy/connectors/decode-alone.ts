/** A handoff that did not come about after prefill had run: decode computes the prompt itself. */
import { editMembers } from '../json-members.ts';
import { describeRewrite } from '../prefill-body.ts';
import type { Answer, LegContext } from './connector.ts';
import { KV_TRANSFER_PARAMS } from './transfer-params.ts';

/**
 * Runs the client's request on a decode instance without kv_transfer_params, the client's own included: whatever they
 * name is not for decode to fetch. A leg that fails is simply repeated elsewhere. The caller reports why.
 */
export function decodeAlone(context: LegContext, why: string): Promise<Answer> {
  const { request } = context;
  const leg = {
    kind: 'decode',
    body: editMembers(request.body, request.members, new Map([[KV_TRANSFER_PARAMS, undefined]])),
    rewrites: [describeRewrite(KV_TRANSFER_PARAMS, undefined, `none: ${why}`)],
  } as const;
  return context.repeat('decode', (target) => context.open({ ...leg, ...target }));
}
