/**
 * Bytes of KV cache per token, worked out from what `/server_info` says of the model and the cache. Only where the sum is
 * certain: models whose layers all keep full attention's keys and values, in a data type that is told. Everything else
 * (latent attention, sliding windows, state-space layers, context parallelism) answers undefined rather than a guess.
 *
 * The sum: 2 (key and value) x layers x KV heads x head size x bytes of the data type, as FullAttentionSpec.page_size_bytes
 * has it (vllm/v1/kv_cache_interface.py). Tensor-parallel ranks beyond the number of KV heads hold copies
 * (ModelConfig.get_num_kv_heads: at least one head a rank), which are counted: they are memory, and they are transferred.
 */
import { z } from 'zod';

/** `model_type` of Hugging Face configurations whose layers are all alike, and attend to everything. */
const PLAIN_MODELS: ReadonlySet<string> = new Set([
  'llama', 'mistral', 'mixtral', 'qwen2', 'qwen2_moe', 'qwen3', 'qwen3_moe', 'olmo', 'olmo2', 'olmoe', 'granite', 'granitemoe', 'phi', 'starcoder2', 'stablelm', 'internlm2', 'internlm3',
]);
/** torch names, with or without `torch.`; `cache_dtype` of vllm/config/cache.py. */
const DTYPE_BYTES: Readonly<Record<string, number>> = {
  float32: 4, bfloat16: 2, float16: 2, half: 2, fp8: 1, fp8_e4m3: 1, fp8_e5m2: 1, fp8_inc: 1,
};

const count = z.number().int().min(1).max(1_000_000);
const optionalCount = count.nullish();

const HfSchema = z.object({
  model_type: z.string(),
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: optionalCount,
  hidden_size: count,
  head_dim: optionalCount,
  sliding_window: z.number().nullish(),
  use_sliding_window: z.boolean().nullish(),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.object({ kv_cache_scheme: z.unknown().optional() }).nullish().catch(undefined),
});

const KvConfigSchema = z.object({
  model_config: z.object({ dtype: z.string(), hf_config: z.unknown().optional(), hf_text_config: z.unknown().optional() }),
  cache_config: z.object({ cache_dtype: z.string() }),
  parallel_config: z.object({ tensor_parallel_size: count, decode_context_parallel_size: optionalCount }),
});

/** @param config the `vllm_config` of `/server_info?config_format=json`. Undefined where it does not tell for certain. */
export function modelKvBytes(config: unknown): number | undefined {
  const parsed = KvConfigSchema.safeParse(config);
  if (!parsed.success || (parsed.data.parallel_config.decode_context_parallel_size ?? 1) > 1) return undefined;
  const { model_config: model, cache_config: cache, parallel_config: parallel } = parsed.data;
  const hf = HfSchema.safeParse(configObject(model.hf_text_config) ?? configObject(model.hf_config));
  if (!hf.success || !isPlain(hf.data)) return undefined;
  const { num_hidden_layers: layers, num_attention_heads: heads, hidden_size: hidden } = hf.data;
  // `auto`: the model's own, unless the checkpoint brings a scheme of its own for the cache.
  if (cache.cache_dtype === 'auto' && (hf.data.quantization_config?.kv_cache_scheme ?? undefined) !== undefined) return undefined;
  const bytes = DTYPE_BYTES[(cache.cache_dtype === 'auto' ? model.dtype : cache.cache_dtype).replace(/^torch\./u, '')];
  const headDim = hf.data.head_dim ?? hidden / heads;
  if (bytes === undefined || !Number.isInteger(headDim)) return undefined;
  const kvHeads = hf.data.num_key_value_heads ?? heads;
  const tp = parallel.tensor_parallel_size;
  return 2 * layers * Math.max(1, Math.floor(kvHeads / tp)) * tp * headDim * bytes;
}

function isPlain({ model_type: type, sliding_window: window, use_sliding_window: isWindowed, layer_types: layers }: z.output<typeof HfSchema>): boolean {
  // Configurations that have `use_sliding_window` name a window even when it is off.
  const hasWindow = typeof window === 'number' && isWindowed !== false;
  return PLAIN_MODELS.has(type) && !hasWindow && (layers ?? []).every((layer) => layer === 'full_attention');
}

/** Serialised as an object, or, where pydantic does not know the class, as `LlamaConfig {...json...}` (its `str`). */
function configObject(value: unknown): object | undefined {
  if (typeof value === 'object' && value !== null) return value;
  if (typeof value !== 'string') return undefined;
  const from = value.indexOf('{');
  if (from === -1) return undefined;
  try {
    const parsed: unknown = JSON.parse(value.slice(from));
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined;
  } catch {
    // Another version's way to print it.
    return undefined;
  }
}
