/** kv_role: a strict producer never loads and a strict consumer never keeps; the connectors assert it. */
import type { SimInstanceOptions } from '../sim-options.ts';
import type { LoadPlan, TransferParams } from './transfer.ts';

/** The assertion that a request of the wrong kind runs into; undefined when the role allows it. */
export function assertRole(role: SimInstanceOptions['kvRole'], params: TransferParams): LoadPlan | undefined {
  if (role === 'kv_producer' && params['do_remote_prefill'] === true) {
    return { kind: 'assert', reason: 'do_remote_prefill on a kv_producer' };
  }
  if (role === 'kv_consumer' && params['do_remote_decode'] === true && params['do_remote_prefill'] !== true) {
    return { kind: 'assert', reason: 'do_remote_decode on a kv_consumer' };
  }
  return undefined;
}
