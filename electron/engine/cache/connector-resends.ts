/**
 * Whether a P/D protocol sends again what the decode engine holds. From vLLM's connectors, what the decode side asks for
 * once its blocks are allocated (`update_state_after_alloc`):
 *
 * - NIXL pull and push (nixl/pull_scheduler.py, nixl/push_scheduler.py) and Mooncake (mooncake/mooncake_connector.py) name
 *   `get_unhashed_block_ids_all_groups()`: blocks found in the prefix cache are left out, in whole blocks.
 * - MoRIIO (moriio/moriio_connector.py) names `get_block_ids()[0]` in READ and in WRITE mode: every block of the prompt,
 *   those found in the cache included. Its counters know only of the others (`len(prompt) - num_computed_tokens`).
 *
 * Everything else (a shared store behind `plain`, whole requests) is not known to do either.
 */
import type { HandoffMeasure } from '#shared/cache.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';

const RESENDS: Readonly<Partial<Record<ConnectorName, HandoffMeasure['resends']>>> = {
  nixl: 'missing', 'nixl-bidirectional': 'missing', 'nixl-push': 'missing', render: 'missing', mooncake: 'missing', moriio: 'all',
};

/** Of several protocols used in a window: what holds for all of them. */
export function resendsOf(connectors: Iterable<ConnectorName>): HandoffMeasure['resends'] {
  const found = new Set(Array.from(connectors, (connector) => RESENDS[connector] ?? 'unknown'));
  const [first = 'unknown'] = found;
  return found.size === 1 ? first : 'unknown';
}
