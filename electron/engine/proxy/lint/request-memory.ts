/** What the linter keeps of one request between its hops. */
import type { Instance } from '../../fleet/instance.ts';
import type { ParamsView } from './params-view.ts';

/** A leg as it was sent. */
export interface LegNote {
  readonly instance: Instance;
  readonly rank: number | undefined;
  readonly requestId: string | undefined;
  /** undefined: the path the client called. */
  readonly path: string | undefined;
  readonly transferId: string | undefined;
}

export interface RequestMemory {
  /** The pair under way; a new prefill leg begins a new pair. */
  prefill: LegNote | undefined;
  decode: LegNote | undefined;
  /** Of the pair's prefill leg, once it answered. */
  prefillPromptTokens: number | undefined;
  /** The last parameters looked at: mostly the next hop carries the same text. */
  view: ParamsView | undefined;
  /** What was already said about the client's own parameters. */
  saidOfClient: 'replaced' | 'passed_on' | undefined;
}

export function createMemory(): RequestMemory {
  return { prefill: undefined, decode: undefined, prefillPromptTokens: undefined, view: undefined, saidOfClient: undefined };
}
