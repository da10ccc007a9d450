/** The contract of every connector: a table of rules per hop. */
import type { ConnectorName } from '#shared/vocabulary.ts';
import type { Contract } from './rule.ts';
import { DECODED, EVERY_LEG, PREFILL_BODY, WITHOUT_PARAMS } from './rules/common.ts';
import { MOONCAKE } from './rules/mooncake.ts';
import { MORIIO } from './rules/moriio.ts';
import { NIXL, NIXL_BIDIRECTIONAL, NIXL_PUSH } from './rules/nixl.ts';

/** The two-leg protocol sends no parameters: the pair finds its KV in a shared store. */
const PLAIN: Contract = {
  'proxy->prefill': [...EVERY_LEG, ...WITHOUT_PARAMS, ...PREFILL_BODY],
  'proxy->decode': [...EVERY_LEG, ...WITHOUT_PARAMS],
  'decode->proxy': DECODED,
};

/** One leg that does it all. */
const AGGREGATED: Contract = { 'proxy->decode': EVERY_LEG };

export const CONTRACTS: Readonly<Record<ConnectorName, Contract>> = {
  plain: PLAIN,
  nixl: NIXL,
  'nixl-bidirectional': NIXL_BIDIRECTIONAL,
  'nixl-push': NIXL_PUSH,
  mooncake: MOONCAKE,
  moriio: MORIIO,
  // NIXL pull with token ids.
  render: NIXL,
  aggregated: AGGREGATED,
};

/** What an engine itself expects, whatever protocol pdscope has in force. */
export const ENGINE_CONTRACTS: Readonly<Record<string, Contract>> = {
  NixlConnector: NIXL,
  NixlPullConnector: NIXL,
  NixlPushConnector: NIXL_PUSH,
  MooncakeConnector: MOONCAKE,
  MoRIIOConnector: MORIIO,
};
