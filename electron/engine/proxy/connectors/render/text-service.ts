/**
 * Text of tokens by POST /detokenize of the instance that generated them. A call that was lost is made once more, on the
 * instance that rendered the prompt if the first one is not well: the tokenizer is the same, and an answer under way
 * should not end because an idle connection was closed.
 */
import type { Instance } from '../../../fleet/instance.ts';
import { memberValue } from '../../json-members.ts';
import { describeLeg, ProxyError } from '../../proxy-error.ts';
import type { LegContext } from '../connector.ts';

const DETOKENIZE_PATH = '/detokenize';

export interface TextServiceOptions {
  readonly context: LegContext;
  readonly instance: Instance;
  readonly other: Instance;
  readonly model: string | undefined;
}

/** A function that decodes; it rejects with ProxyError. */
export function textService({ context, instance, other, model }: TextServiceOptions): (tokens: readonly number[]) => Promise<string> {
  const head = model === undefined ? '{"tokens":[' : `{"model":${JSON.stringify(model)},"tokens":[`;
  const ask = async (target: Instance, body: Buffer): Promise<string> => {
    const answer = await context.call({ kind: 'render', instance: target, path: DETOKENIZE_PATH, body, rewrites: [], isAside: true });
    const prompt = memberValue(answer.body, answer.members, 'prompt');
    const text: unknown = prompt === undefined ? undefined : JSON.parse(prompt.toString('utf8'));
    if (typeof text === 'string') return text;
    throw new ProxyError(502, 'bad_response', `${describeLeg('render', target)} answered ${DETOKENIZE_PATH} without a text.`, { leg: 'render', instance: target });
  };
  return async (tokens) => {
    const body = Buffer.from(`${head}${tokens.join(',')}]}`);
    try {
      return await ask(instance, body);
    } catch (error) {
      // A cancelled call rejects with the reason of the cancellation, which is about another leg or the client.
      const isLost = error instanceof ProxyError && error.retryable && error.leg === 'render' && error.instance === instance;
      if (!isLost) throw error;
      return ask(error.mayRepeatOnSame ? instance : other, body).catch(() => Promise.reject(error));
    }
  };
}
