/**
 * A request whose prefill leg is left out, because a decode instance holds nearly all of its prompt (`prefillSkipTokens`).
 * The rest is computed there. When that leg fails, the request runs again from its start, without this instance.
 */
import type { Verdict } from '#shared/findings.ts';
import type { Answer, DecodeHolder, LegContext } from './connector.ts';

/** Sends the client's own bytes to the holder. Rejects with ProxyError. */
export function decodeOnHolder(context: LegContext, holder: DecodeHolder): Promise<Answer> {
  const { instance, rank } = holder;
  const why = describe(holder);
  context.report(prefillSkippedVerdict(holder, why));
  const target = context.choose('decode', { prefer: instance, ...(rank !== undefined && { rank }), reason: why });
  return context.open({ kind: 'decode', ...target, body: context.request.body, rewrites: [{ field: '(prefill leg)', to: `left out: ${why}` }] });
}

function describe({ matchedTokens, promptTokens, confidence, limit }: DecodeHolder): string {
  const rest = promptTokens - matchedTokens;
  return `holds ${matchedTokens} of ${promptTokens} prompt tokens (confidence ${Math.floor(confidence * 100)} %), the other ${rest} are fewer than ${limit}`;
}

function prefillSkippedVerdict({ instance }: DecodeHolder, why: string): Verdict {
  return {
    code: 'prefill_skipped',
    severity: 'info',
    title: 'Prefill left out: the decode instance holds the prompt',
    message: `${instance.name} ${why}.`,
    nextStep: 'Nothing, unless decode instances are slowed down by it: then lower prefillSkipTokens.',
    hop: 'proxy->decode',
    instance: instance.id,
  };
}
