import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { GaugeReducer, isGaugeMetric } from '#engine/fleet/engine-gauges.ts';
import { parsePrometheusText } from '#engine/fleet/prometheus-text.ts';

const golden = (name: string): string => readFileSync(new URL(`../../fixtures/golden/${name}`, import.meta.url), 'utf8');
const parse = (text: string) => parsePrometheusText(text, { wants: isGaugeMetric }).samples;
const at = (seconds: number) => ({ monotonicMs: seconds * 1000, unixMs: 1_800_000_000_000 + seconds * 1000 });

const SINGLE = {
  scrapedAtUnixMs: 1_800_000_000_000, running: 17, waiting: 5, waitingDeferred: 2, kvUsage: 0.41, blockSize: 16, firstRank: 0, gpuBlocks: 27_408,
  preemptions: 2, promptTokensBySource: { localCompute: 83_676, localCacheHit: 41_344, externalKvTransfer: 0 },
};

describe('golden pages', () => {
  it.each([
    ['two ranks behind one address', ['0', '1'], 2, 0],
    ['one rank', ['0'], undefined, 0],
    ['one rank of a larger engine with an address of its own', ['3'], undefined, 3],
    ['more ranks than any engine has', Array.from({ length: 1025 }, (_, rank) => String(rank)), undefined, 0],
    ['ranks of another node, whose numbers the header would not take', ['2', '3'], undefined, 2],
    ['labels that do not count up', ['1', '3'], undefined, undefined],
    ['labels that are no numbers', ['a', '1'], undefined, undefined],
  ])('counts ranks: %s', (_name, engines, expected, first) => {
    const text = engines.map((engine) => `vllm:num_requests_running{engine="${engine}"} 1\n`).join('');
    const gauges = new GaugeReducer().reduce(parse(text), { monotonicMs: 0, unixMs: 0 });
    expect([gauges.dpRanks, gauges.firstRank]).toEqual([expected, first]);
  });

  it('sums over the engines of one server', () => {
    const gauges = new GaugeReducer().reduce(parse(golden('vllm-metrics.txt')), at(0));
    expect(gauges).toEqual({
      scrapedAtUnixMs: 1_800_000_000_000, running: 35, waiting: 10, waitingDeferred: 4, kvUsage: expect.closeTo(0.445, 12) as number,
      blockSize: 16, dpRanks: 2, firstRank: 0, gpuBlocks: 54_816, preemptions: 8,
      promptTokensBySource: { localCompute: 240, localCacheHit: 222_272, externalKvTransfer: 450_508 },
      nixlExpired: 2, nixlFailedTransfers: 2,
    });
  });

  it('leaves absent what a plain engine does not expose', () => {
    expect(new GaugeReducer().reduce(parse(golden('vllm-metrics-minimal.txt')), at(0))).toEqual(SINGLE);
  });

  it('reads the same from several API server processes', () => {
    expect(new GaugeReducer().reduce(parse(golden('vllm-metrics-multiproc.txt')), at(0))).toEqual(SINGLE);
  });
});

function page(values: Readonly<Record<string, number>>): string {
  return Object.entries(values).map(([name, value]) => `vllm:${name}{engine="0",model_name="m"} ${value}\n`).join('');
}

describe('rates', () => {
  it('come from two scrapes', () => {
    const reducer = new GaugeReducer();
    const first = reducer.reduce(parse(page({ prompt_tokens_total: 1000, generation_tokens_total: 50, prefix_cache_queries_total: 100, prefix_cache_hits_total: 90, external_prefix_cache_queries_total: 10, external_prefix_cache_hits_total: 0 })), at(0));
    expect(first).toEqual({ scrapedAtUnixMs: 1_800_000_000_000 });
    const second = reducer.reduce(parse(page({ prompt_tokens_total: 1500, generation_tokens_total: 150, prefix_cache_queries_total: 200, prefix_cache_hits_total: 115, external_prefix_cache_queries_total: 20, external_prefix_cache_hits_total: 10 })), at(2));
    expect(second).toEqual({ scrapedAtUnixMs: 1_800_000_002_000, promptTokensPerSecond: 250, generationTokensPerSecond: 50, prefixHitRate: 0.25, externalHitRate: 1, cacheTokens: { prefixQueries: 100, prefixHits: 25, externalQueries: 10, externalHits: 10 } });
  });

  it('count what NIXL moved, over restarts of the engine, and only where it is exposed', () => {
    const reducer = new GaugeReducer();
    const nixl = (bytes: number, transfers: number): string => page({ nixl_bytes_transferred_sum: bytes, nixl_bytes_transferred_count: transfers });
    expect(reducer.reduce(parse(nixl(5000, 2)), at(0)).kvTransfers).toBeUndefined();
    expect(reducer.reduce(parse(nixl(9000, 4)), at(2)).kvTransfers).toEqual({ bytes: 4000, transfers: 2 });
    expect(reducer.reduce(parse(nixl(1000, 1)), at(4)).kvTransfers).toEqual({ bytes: 5000, transfers: 3 });
    expect(reducer.reduce(parse(nixl(1000, 1)), at(6)).kvTransfers).toEqual({ bytes: 5000, transfers: 3 });
  });

  it('grow from 0 when an engine began anew, even where it counted further than before', () => {
    const reducer = new GaugeReducer();
    const at1 = (created: number, tokens: number): string => `${page({ prefix_cache_queries_total: tokens, prefix_cache_hits_total: 0 })}vllm:prompt_tokens_created{engine="0",model_name="m"} ${created}\n`;
    reducer.reduce(parse(at1(100, 500)), at(0));
    expect(reducer.reduce(parse(at1(100, 600)), at(2)).cacheTokens?.prefixQueries).toBe(100);
    expect(reducer.reduce(parse(at1(777, 600)), at(4)).cacheTokens?.prefixQueries).toBe(700);
    expect(reducer.reduce(parse(at1(777, 650)), at(6)).cacheTokens?.prefixQueries).toBe(750);
  });

  it('keep the hit rate of the last queries while there are no new ones', () => {
    const reducer = new GaugeReducer();
    reducer.reduce(parse(page({ prefix_cache_queries_total: 0, prefix_cache_hits_total: 0 })), at(0));
    expect(reducer.reduce(parse(page({ prefix_cache_queries_total: 0, prefix_cache_hits_total: 0 })), at(1)).prefixHitRate).toBeUndefined();
    expect(reducer.reduce(parse(page({ prefix_cache_queries_total: 10, prefix_cache_hits_total: 5 })), at(2)).prefixHitRate).toBe(0.5);
    expect(reducer.reduce(parse(page({ prefix_cache_queries_total: 10, prefix_cache_hits_total: 5 })), at(3)).prefixHitRate).toBe(0.5);
    expect(reducer.reduce(parse(page({ prefix_cache_queries_total: 20, prefix_cache_hits_total: 5 })), at(4)).prefixHitRate).toBe(0);
  });

  it('survive an engine restart', () => {
    const reducer = new GaugeReducer();
    reducer.reduce(parse(page({ prompt_tokens_total: 10_000 })), at(0));
    expect(reducer.reduce(parse(page({ prompt_tokens_total: 30 })), at(3)).promptTokensPerSecond).toBe(10);
  });

  it('do not count a rank that has just appeared', () => {
    const reducer = new GaugeReducer();
    reducer.reduce(parse('vllm:prompt_tokens_total{engine="0"} 100\n'), at(0));
    const text = (zero: number, one: number) => `vllm:prompt_tokens_total{engine="0"} ${zero}\nvllm:prompt_tokens_total{engine="1"} ${one}\n`;
    expect(reducer.reduce(parse(text(110, 5000)), at(1)).promptTokensPerSecond).toBe(10);
    expect(reducer.reduce(parse(text(110, 5020)), at(2)).promptTokensPerSecond).toBe(20);
  });
});

describe('older engines and odd values', () => {
  it('reads the names from before 2025-11', () => {
    const reducer = new GaugeReducer();
    reducer.reduce(parse(page({ gpu_cache_usage_perc: 0.2, gpu_prefix_cache_queries_total: 0, gpu_prefix_cache_hits_total: 0 })), at(0));
    expect(reducer.reduce(parse(page({ gpu_cache_usage_perc: 0.3, gpu_prefix_cache_queries_total: 4, gpu_prefix_cache_hits_total: 3 })), at(1))).toMatchObject({ kvUsage: 0.3, prefixHitRate: 0.75 });
  });

  it('weighs KV usage by the blocks of each rank', () => {
    const text = `vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 1
vllm:cache_config_info{engine="0",block_size="32",num_gpu_blocks="300"} 1
vllm:cache_config_info{engine="1",block_size="32",num_gpu_blocks="100"} 1
`;
    expect(new GaugeReducer().reduce(parse(text), at(0))).toMatchObject({ kvUsage: 0.625, blockSize: 32, gpuBlocks: 400 });
  });

  it('takes None, NaN and nothing at all as not known', () => {
    const text = 'vllm:cache_config_info{engine="0",block_size="None",num_gpu_blocks="None"} 1\nvllm:num_requests_running{engine="0"} NaN\nvllm:kv_cache_usage_perc{engine="0"} NaN\n';
    expect(new GaugeReducer().reduce(parse(text), at(0))).toEqual({ scrapedAtUnixMs: 1_800_000_000_000, firstRank: 0 });
    expect(new GaugeReducer().reduce([], at(0))).toEqual({ scrapedAtUnixMs: 1_800_000_000_000 });
  });
});
