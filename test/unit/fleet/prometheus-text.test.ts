import { readFileSync } from 'node:fs';
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { parsePrometheusText, type MetricSample } from '#engine/fleet/prometheus-text.ts';

const golden = (name: string): string => readFileSync(new URL(`../../fixtures/golden/${name}`, import.meta.url), 'utf8');

function one(line: string): MetricSample | undefined {
  return parsePrometheusText(`${line}\n`).samples[0];
}

describe('golden pages', () => {
  it.each([
    ['vllm-metrics.txt', 1143],
    ['vllm-metrics-minimal.txt', 380],
    ['vllm-metrics-multiproc.txt', 328],
  ])('reads every line of %s', (name, count) => {
    const page = parsePrometheusText(golden(name));
    expect(page.badLines).toBe(0);
    expect(page.samples).toHaveLength(count);
  });

  it('knows a histogram whose name ends in _total', () => {
    const page = parsePrometheusText(golden('vllm-metrics-multiproc.txt'));
    expect(page.types.get('vllm:iteration_tokens_total')).toBe('histogram');
    expect(page.types.get('vllm:prompt_tokens_total')).toBe('counter');
    expect(page.samples.filter((sample) => sample.name === 'vllm:iteration_tokens_total_count')).toEqual([
      { name: 'vllm:iteration_tokens_total_count', labels: { engine: '0', model_name: 'meta-llama/Llama-3.1-8B-Instruct' }, value: 40 },
    ]);
    const last = page.samples.findLast((sample) => sample.name === 'vllm:iteration_tokens_total_bucket');
    expect(last?.labels['le']).toBe('+Inf');
  });

  it('reads only what is wanted', () => {
    const page = parsePrometheusText(golden('vllm-metrics.txt'), { wants: (name) => name === 'vllm:num_requests_running' });
    expect(page.samples.map((sample) => [sample.labels['engine'], sample.value])).toEqual([['0', 17], ['1', 18]]);
    expect([...page.types]).toEqual([['vllm:num_requests_running', 'gauge']]);
  });
});

describe('lines', () => {
  it('reads names, labels, escapes, timestamps and exemplars', () => {
    expect(one('up 1')).toEqual({ name: 'up', labels: {}, value: 1 });
    expect(one('up{} 1')).toEqual({ name: 'up', labels: {}, value: 1 });
    expect(one('  up\t1')).toMatchObject({ name: 'up', value: 1 });
    expect(one('a:b_c{x="1",y="two words",} -1.5e-3 1700000000000')).toEqual({ name: 'a:b_c', labels: { x: '1', y: 'two words' }, value: -0.0015 });
    expect(one(String.raw`m{p="C:\\dir\"q\"\nend{},="} 2`)).toEqual({ name: 'm', labels: { p: 'C:\\dir"q"\nend{},=' }, value: 2 });
    expect(one('m_bucket{ le = "0.1" , a="b" } 3 # {trace_id="x"} 0.05')).toEqual({ name: 'm_bucket', labels: { le: '0.1', a: 'b' }, value: 3 });
    expect(one('m{__proto__="x"} 1')?.labels['__proto__']).toBe('x');
  });

  it.each([
    ['+Inf', Number.POSITIVE_INFINITY],
    ['-Inf', Number.NEGATIVE_INFINITY],
    ['inf', Number.POSITIVE_INFINITY],
    ['NaN', Number.NaN],
    ['1.7952145045946703e+09', 1_795_214_504.594_670_3],
    ['.5', 0.5],
    ['+3', 3],
    ['2.', 2],
  ])('reads the value %s', (text, value) => {
    expect(one(`m ${text}`)?.value).toBe(value);
  });

  it.each(['m', 'm{a="b"}', 'm{a="b" 1', 'm{a=b} 1', 'm{a="b} 1', 'm{1a="b"} 1', 'm{a="b"c="d"} 1', '1m 2', 'm 0x10', 'm one', '{a="b"} 1', 'm{a} 1', 'm 1_000'])(
    'counts %j as bad and goes on',
    (line) => {
      expect(parsePrometheusText(`${line}\nok 1\n`)).toMatchObject({ samples: [{ name: 'ok', value: 1 }], badLines: 1 });
    },
  );

  it('ignores comments, blank lines and carriage returns', () => {
    const page = parsePrometheusText('# a comment\n\n   \n# HELP m text\n# TYPE m gauge\n# TYPE u unknown\n# TYPE bad nonsense\nm 1\r\n# EOF');
    expect(page).toMatchObject({ samples: [{ name: 'm', value: 1 }], badLines: 0 });
    expect([...page.types]).toEqual([['m', 'gauge'], ['u', 'untyped']]);
  });
});

describe('limits', () => {
  it('refuses pages that are too large', () => {
    expect(() => parsePrometheusText('m 1\n'.repeat(10), { maxLines: 9 })).toThrow('more than 9 lines');
    expect(() => parsePrometheusText('m 1\n'.repeat(10), { maxChars: 39 })).toThrow('more than 39');
  });

  it('costs only the line where a line is too much', () => {
    expect(parsePrometheusText('m{a="1",b="2",c="3"} 1\nok 1', { maxLabels: 2 })).toMatchObject({ badLines: 1, samples: [{ name: 'ok' }] });
    expect(parsePrometheusText('m{a="1",b="2"} 1', { maxLabels: 2 }).badLines).toBe(0);
    expect(parsePrometheusText(`m{a="${'x'.repeat(100)}"} 1\nok 1`, { maxLineChars: 50 })).toMatchObject({ badLines: 1, samples: [{ name: 'ok' }] });
  });
});

describe('any input', () => {
  const name = fc.stringMatching(/^[a-zA-Z_:][a-zA-Z0-9_:]{0,20}$/);
  const labelName = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,10}$/);
  const sample = fc.record({ name, labels: fc.dictionary(labelName, fc.string({ unit: 'binary', maxLength: 20 }), { maxKeys: 5 }), value: fc.oneof(fc.double(), fc.integer()) });
  const escape = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  const print = (value: number): string => (Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf');

  it('reads back what was written', () => {
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 20 }), (samples) => {
        const text = samples.map(({ name, labels, value }) => `${name}{${Object.entries(labels).map(([key, label]) => `${key}="${escape(label)}"`).join(',')}} ${print(value)}\n`).join('');
        const page = parsePrometheusText(text);
        expect(page.badLines).toBe(0);
        expect(page.samples.map((item) => ({ ...item, labels: { ...item.labels } }))).toEqual(samples.map((item) => ({ ...item, labels: { ...item.labels }, value: Object.is(item.value, -0) ? 0 : item.value })));
      }),
    );
  });

  it('never throws on noise within the limits', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        expect(parsePrometheusText(text).badLines).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});
