/** `vllm:cache_config_info`: the cache configuration as labels of a gauge that is always 1. */
import type { MetricsRegistry } from './metrics-registry.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

export function addCacheConfigInfo(registry: MetricsRegistry, options: ResolvedSimOptions, rank: number): void {
  const tokens = options.blocks * options.blockSize;
  registry.gauge(
    'vllm:cache_config_info',
    'Information of the LLMEngine CacheConfig',
    {
      _block_size_resolved: 'True',
      block_size: String(options.blockSize),
      cache_dtype: 'auto',
      enable_prefix_caching: options.role === 'encode' ? 'False' : 'True',
      engine: String(rank),
      gpu_memory_utilization: '0.92',
      is_attention_free: 'False',
      kv_cache_max_concurrency: (tokens / options.maxModelLen).toFixed(2),
      kv_cache_memory_bytes: 'None',
      kv_cache_size_tokens: String(tokens),
      num_cpu_blocks: 'None',
      num_gpu_blocks: String(options.blocks),
      num_gpu_blocks_override: 'None',
      prefix_caching_hash_algo: 'sha256',
      sliding_window: 'None',
      user_specified_block_size: 'False',
    },
    () => 1,
  );
}
