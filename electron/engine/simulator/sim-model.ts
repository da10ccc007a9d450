/** The model that simulated engines pretend to run: the shape of Qwen3-8B, in bfloat16, on one GPU. */

/** As in the model's config.json; what `/server_info` tells of it. */
export const HF_CONFIG = {
  model_type: 'qwen3', num_hidden_layers: 36, num_attention_heads: 32, num_key_value_heads: 8, hidden_size: 4096, head_dim: 128, sliding_window: null, use_sliding_window: false,
} as const;

/** Key and value, of every layer and KV head, two bytes each: 147,456. */
export const KV_BYTES_PER_TOKEN = 2 * HF_CONFIG.num_hidden_layers * HF_CONFIG.num_key_value_heads * HF_CONFIG.head_dim * 2;
