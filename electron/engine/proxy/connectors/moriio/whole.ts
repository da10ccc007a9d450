/**
 * A request without handoff, whole on one prefill instance. A decode instance (kv_consumer) cannot take it: it counts every
 * prompt as remote, whether there are parameters or not (`get_num_new_matched_tokens` in
 * vllm/distributed/kv_transfer/kv_connector/v1/moriio/moriio_connector.py, all versions up to 2026-08). In WRITE mode it
 * would wait for ever, in READ mode answer from blocks that nobody filled. A prefill instance (kv_producer) without
 * parameters is an ordinary engine.
 */
import { editMembers, memberValue } from '../../json-members.ts';
import { describeRewrite, type RewrittenBody } from '../../prefill-body.ts';
import { ProxyError } from '../../proxy-error.ts';
import type { Answer, LegContext } from '../connector.ts';
import { KV_TRANSFER_PARAMS } from '../transfer-params.ts';
import { servedWhole } from './verdicts.ts';

/** The whole request on one prefill instance, without parameters. No handoff, so it can be repeated on another. */
export async function runWhole(context: LegContext, why: string, severity: 'info' | 'warning'): Promise<Answer> {
  context.report(servedWhole(why, severity));
  const { body, rewrites } = bodyWithoutParams(context, why);
  let failure: unknown;
  try {
    return await context.repeat('prefill', async (target) => {
      try {
        return await context.open({ kind: 'decode', ...target, body, rewrites });
      } catch (error) {
        failure = error;
        throw error;
      }
    });
  } catch (error) {
    // Why the last instance failed says more than that none is left.
    throw error instanceof ProxyError && error.code === 'no_instance' && failure instanceof ProxyError ? final(failure) : error;
  }
}

/** The leg's kind is decode, so the core would look for another decode instance, which cannot help. */
function final(error: ProxyError): ProxyError {
  const { status, code, message, leg, instance, headers } = error;
  return new ProxyError(status, code, message, { headers, cause: error, ...(leg !== undefined && { leg }), ...(instance !== undefined && { instance }) });
}

function bodyWithoutParams({ request }: LegContext, why: string): RewrittenBody {
  const rewrites = [describeRewrite('(handoff)', undefined, `left out: ${why}`)];
  const own = memberValue(request.body, request.members, KV_TRANSFER_PARAMS);
  if (own === undefined) return { body: request.body, rewrites };
  return {
    body: editMembers(request.body, request.members, new Map([[KV_TRANSFER_PARAMS, undefined]])),
    rewrites: [...rewrites, describeRewrite(KV_TRANSFER_PARAMS, own.toString('utf8', 0, 400), undefined)],
  };
}
