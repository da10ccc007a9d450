import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { startSimInstance } from '#engine/simulator/sim-instance.ts';
import { COMPLETIONS, prompt, send } from './sim-client.ts';

/** Families that a plain vLLM has and the simulator leaves out: no GPU counters, and nothing to say about sizes. */
const LEFT_OUT = /^(python_|process_|vllm:estimated_|http_request_size|http_response_size)/u;

interface Family {
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly bounds: readonly string[];
}

function families(text: string): Map<string, Family> {
  const found = new Map<string, { type: string; help: string; labels: Set<string>; bounds: Set<string> }>();
  let current = '';
  for (const line of text.split('\n')) {
    const [, keyword, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/u.exec(line) ?? [];
    if (keyword === 'HELP' && name !== undefined) found.set(name, { type: '', help: rest ?? '', labels: new Set(), bounds: new Set() });
    const family = found.get(name ?? current);
    if (name !== undefined) current = name;
    if (keyword === 'TYPE' && family !== undefined) family.type = rest ?? '';
    if (keyword !== undefined || family === undefined) continue;
    for (const [, label, value] of line.matchAll(/(\w+)="([^"]*)"/gu)) {
      family.labels.add(label ?? '');
      if (label === 'le') family.bounds.add(value ?? '');
    }
  }
  return new Map([...found].map(([name, family]) => [name, { ...family, labels: [...family.labels].sort(), bounds: [...family.bounds] }]));
}

/** What must be equal: token bounds follow max_model_len, and cache_config_info has a label for every option of a version. */
function comparable(name: string, family: Family | undefined): object {
  const hasOwnBounds = /tokens(_created)?$|max_tokens/u.test(name);
  return {
    name,
    type: family?.type,
    help: family?.help,
    labels: name === 'vllm:cache_config_info' ? 'own' : family?.labels,
    bounds: hasOwnBounds ? 'own' : family?.bounds,
  };
}

function golden(name: string): Map<string, Family> {
  return families(readFileSync(new URL(`../../fixtures/golden/${name}`, import.meta.url), 'utf8'));
}

it('exposes the families, labels, bounds and help of vLLM', async () => {
  const instance = await startSimInstance({ role: 'both', speed: 100, transfer: 'nixl' });
  try {
    await send(instance, COMPLETIONS, { body: { prompt: prompt(20), max_tokens: 2 } });
    const answer = await send(instance, '/metrics');
    expect(answer.headers['content-type']).toContain('text/plain; version=0.0.4');
    const ours = families(answer.text);
    const theirs = golden('vllm-metrics-minimal.txt');
    for (const [name, family] of golden('vllm-metrics.txt')) if (/^(vllm:nixl_|http_)/u.test(name)) theirs.set(name, family);
    const kept = [...theirs].filter(([name]) => !LEFT_OUT.test(name));
    expect([...ours.keys()].sort()).toEqual(kept.map(([name]) => name).sort());
    expect(kept.map(([name]) => comparable(name, ours.get(name)))).toEqual(kept.map(([name, family]) => comparable(name, family)));
  } finally {
    await instance.close();
  }
});

it('moves with the work', async () => {
  const instance = await startSimInstance({ role: 'both', speed: 100 });
  try {
    for (let index = 0; index < 2; index += 1) await send(instance, COMPLETIONS, { body: { prompt: prompt(40), max_tokens: 5, ignore_eos: true } });
    await send(instance, COMPLETIONS, { body: {} });
    const { text } = await send(instance, '/metrics');
    const value = (name: string, label = ''): number => {
      const line = text.split('\n').find((candidate) => candidate.startsWith(`vllm:${name}{`) && candidate.includes(label));
      return Number(line?.slice(line.lastIndexOf(' ')));
    };
    expect(value('prompt_tokens_total')).toBe(80);
    expect(value('prompt_tokens_by_source_total', 'local_compute')).toBe(48);
    expect(value('prompt_tokens_by_source_total', 'local_cache_hit')).toBe(32);
    expect(value('prompt_tokens_cached_total')).toBe(32);
    expect(value('prefix_cache_queries_total')).toBe(80);
    expect(value('prefix_cache_hits_total')).toBe(32);
    expect(value('generation_tokens_total')).toBe(10);
    expect(value('request_success_total', '"length"')).toBe(2);
    expect(value('time_to_first_token_seconds_count')).toBe(2);
    expect(value('inter_token_latency_seconds_count')).toBe(8);
    expect(value('e2e_request_latency_seconds_count')).toBe(2);
    expect(value('request_decode_time_seconds_count')).toBe(2);
    expect(value('num_requests_running')).toBe(0);
    expect(text).toContain('http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 2.0');
    expect(text).toContain('http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 1.0');
    expect(text).toMatch(/vllm:cache_config_info\{.*block_size="16".*num_gpu_blocks="2048".*\} 1\.0/u);
  } finally {
    await instance.close();
  }
});
