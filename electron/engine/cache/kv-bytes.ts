/**
 * How many bytes of KV cache a token takes on an instance, and who says so. In this order: what was given with the
 * instance; what `/server_info` is enough for (model-kv-bytes.ts); what NIXL moved over the tokens that were received.
 * The sources are never mixed: a figure has one, and says which.
 *
 * The measured one: `nixl_bytes_transferred` (nixl/stats.py records each transfer's total bytes, on every tensor-parallel
 * rank) over `prompt_tokens_by_source{external_kv_transfer}`, both as grown since pdscope began to scrape, summed over the
 * instances of one model: with push the bytes are counted where the tokens are not, and NIXL's handshake refuses peers of
 * another model, cache type or head count (nixl/metadata.py), so their tokens are of one size. It is a little too large,
 * never too small: whole blocks move, while the tokens counted end with the prompt.
 */
import type { KvBytes } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Instance } from '../fleet/instance.ts';

type Measured = Pick<Instance, 'id' | 'name' | 'role' | 'models' | 'transfer' | 'gauges' | 'kvBytesPerToken'>;

/** Fewer say too little: a transfer under way is in one sum and not in the other. */
const LEAST_TRANSFERS = 16;
const LEAST_TOKENS = 4096;

/** Undefined when nobody says. */
export function kvBytesOf(id: InstanceId, fleet: readonly Measured[]): KvBytes | undefined {
  const instance = fleet.find((one) => one.id === id);
  if (instance === undefined) return undefined;
  if (instance.kvBytesPerToken !== undefined) return { bytesPerToken: instance.kvBytesPerToken, from: 'setting', detail: `given with ${instance.name}` };
  const told = instance.transfer?.kvBytesPerToken;
  if (told !== undefined) return { bytesPerToken: told, from: 'server-info', detail: `worked out from ${instance.name}’s model and cache configuration` };
  const [model] = instance.models;
  return model === undefined ? undefined : measure(fleet.filter(({ models }) => models[0] === model), model);
}

function measure(instances: readonly Measured[], model: string): KvBytes | undefined {
  // Tokens that another connector loaded count as external too; then the two sums are not of the same transfers.
  if (instances.some(({ transfer }) => transfer?.kvConnector !== undefined && !/^Nixl(?:Pull|Push)?Connector$/u.test(transfer.kvConnector))) return undefined;
  let [bytes, transfers, tokens] = [0, 0, 0];
  let rounding = 0;
  for (const { gauges } of instances) {
    bytes += gauges?.kvTransfers?.bytes ?? 0;
    transfers += gauges?.kvTransfers?.transfers ?? 0;
    tokens += gauges?.cacheTokens?.externalKvTransfer ?? gauges?.cacheTokens?.externalHits ?? 0;
    rounding = Math.max(rounding, (gauges?.blockSize ?? 1) - 1);
  }
  if (transfers < LEAST_TRANSFERS || tokens < LEAST_TOKENS || bytes <= 0) return undefined;
  const most = Math.ceil(((transfers * rounding) / tokens) * 100);
  const slack = rounding === 0 ? 'whole blocks move, so a little too much' : `whole blocks move, so up to ${most} % too much`;
  return { bytesPerToken: Math.round(bytes / tokens), from: 'transfers', detail: `measured: NIXL moved ${bytes} bytes in ${transfers} transfers for ${tokens} tokens received by instances of ${model}; ${slack}` };
}
