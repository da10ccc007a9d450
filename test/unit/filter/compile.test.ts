import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { compileFilter } from '#shared/filter/compile.ts';
import { FINDING_FILTER_FIELDS } from '#shared/filter/finding-fields.ts';
import { KV_FILTER_FIELDS } from '#shared/filter/kv-fields.ts';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import type { Finding } from '#shared/findings.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { KvRow } from '#shared/kv.ts';
import type { RequestRow } from '#shared/request.ts';
import { kvRow, requestRow } from './rows.ts';

function requestMatches(text: string, overrides: Partial<RequestRow> = {}): boolean {
  const filter = compileFilter(text, REQUEST_FILTER_FIELDS);
  if (!filter.ok) throw new Error(`${text}: ${filter.error}`);
  return filter.matches(requestRow(overrides));
}

function kvMatches(text: string, overrides: Partial<KvRow> = {}): boolean {
  const filter = compileFilter(text, KV_FILTER_FIELDS);
  if (!filter.ok) throw new Error(`${text}: ${filter.error}`);
  return filter.matches(kvRow(overrides));
}

/** A request of which nothing was observed beyond its arrival. */
function withoutNumbers(): RequestRow {
  const { status: _status, ttftMs: _ttft, promptTokens: _prompt, cachedTokens: _cached, model: _model, ...rest } = requestRow({ state: 'running' });
  return rest;
}

function matchesRow(text: string, row: RequestRow): boolean {
  const filter = compileFilter(text, REQUEST_FILTER_FIELDS);
  return filter.ok && filter.matches(row);
}

describe('compileFilter on what protocols add to requests', () => {
  const route = [
    { kind: 'prefill' as const, instance: 'p0' as InstanceId, name: 'P0', rank: 1 },
    { kind: 'decode' as const, instance: 'd0' as InstanceId, name: 'D0', rank: 3 },
  ];
  it.each([
    ['finding:error', { findings: { count: 2, worst: 'error' } }, true],
    ['finding:warning', { findings: { count: 2, worst: 'error' } }, false],
    ['finding:error', {}, false],
    ['findings>0', { findings: { count: 1, worst: 'info' } }, true],
    ['findings>0', {}, false],
    ['findings:0', {}, true],
    ['rank:3', { route }, true],
    ['rank:2', { route }, false],
    ['rank:0', {}, false],
    ['rank:*', { route }, true],
    ['-rank:*', {}, true],
    ['api:forward path:embeddings', { api: 'forward', path: '/v1/embeddings' }, true],
    ['api:forward', {}, false],
    ['role:forward', { route: [{ kind: 'forward', instance: 'd0' as InstanceId, name: 'D0' }] }, true],
  ] satisfies readonly (readonly [string, Partial<RequestRow>, boolean])[])('%s on %o: %s', (text, overrides, expected) => {
    expect(requestMatches(text, overrides)).toBe(expected);
  });

  it('reads them aloud', () => {
    const filter = compileFilter('finding:error rank:1', REQUEST_FILTER_FIELDS);
    expect(filter.ok && filter.reading).toBe('worst finding error, rank 1');
  });
});

describe('compileFilter on findings', () => {
  const finding: Finding = {
    id: 'x', code: 'null_params', severity: 'warning', title: 'Prefill handed over nothing', nextStep: 'Start P0 otherwise.', instance: 'p0' as InstanceId, instanceName: 'P0',
    connector: 'nixl', firstAtUnixMs: 1, lastAtUnixMs: 2, count: 31, blocked: 0, isDismissed: false,
    evidence: [{ atUnixMs: 2, message: 'computes 4,982 tokens again', hop: 'prefill->proxy', request: { id: 'r7' as RecordId, n: 7, requestId: 'chatcmpl-7f3a' } }],
  };
  it.each([
    ['severity:warning,error', true],
    ['severity:error', false],
    ['instance:p0 connector:nixl', true],
    ['instance:P', false],
    ['code:null', true],
    ['count>30 blocked:0', true],
    ['hop:prefill->proxy', true],
    ['hop:proxy->decode', false],
    ['dismissed:no', true],
    ['effect:*', false],
    ['handed', true],
    ['7f3a', true],
    ['"tokens again"', true],
    ['nothing-of-the-kind', false],
  ])('%s: %s', (text, expected) => {
    const filter = compileFilter(text, FINDING_FILTER_FIELDS);
    expect(filter.ok && filter.matches(finding)).toBe(expected);
  });

  it('takes no word for a severity that is none', () => {
    const filter = compileFilter('severity:fatal', FINDING_FILTER_FIELDS);
    expect(filter).toMatchObject({ ok: false, error: expect.stringContaining('severity is one of info, warning, error') as string });
  });
});

describe('compileFilter on requests', () => {
  it.each([
    ['', true],
    ['status:200', true],
    ['status:2xx', true],
    ['status:5xx,404', false],
    ['-status:5xx', true],
    ['status:200..299', true],
    ['ttft>150', true],
    ['ttft>0.18s', false],
    ['ttft>=0.18s', true],
    ['ttft:>150', true],
    ['ttft:180', true],
    ['-ttft>150', false],
    ['bytes>19kB bytes<20KiB', true],
    ['prompt:1.2k', true],
    ['prompt>1k prompt<=1.2k', true],
    ['cached:8%', true],
    ['cached<8', false],
    ['role:decode ttft>150 model:Qwen3-8B', true],
    ['role:encode', false],
    ['instance:p0', true],
    ['instance:P', false],
    ['instance:P*', true],
    ['prefill:D0', false],
    ['decode:d0,d1', true],
    ['model:*8b', true],
    ['model:*7b', false],
    ['model:"*8B"', false],
    ['stream:yes', true],
    ['stream:no', false],
    ['id:7F3A', true],
    ['chatcmpl qwen3', true],
    ['-qwen3', false],
    ['"qwen3 8b"', false],
    ['error:*', false],
    ['-error:*', true],
    ['-error:refused', true],
    ['n:1 retries:0', true],
    ['retries>0', false],
  ])('%j matches the row: %s', (text, isMatch) => {
    expect(requestMatches(text)).toBe(isMatch);
  });

  it('finds the failing leg, its code and its message', () => {
    const error = { message: 'decode leg refused by D1', leg: 'decode', instance: 'd1' as InstanceId, instanceName: 'D1', code: 'connect_failed' } as const;
    expect(requestMatches('error:refused code:connect_failed failed:decode state:error', { error, state: 'error', status: 502 })).toBe(true);
    expect(requestMatches('status:5xx error:* -state:ok', { error, state: 'error', status: 502 })).toBe(true);
    expect(requestMatches('failed:prefill', { error })).toBe(false);
  });

  it('never lets an absent value satisfy a comparison, not even a negated one', () => {
    const row = withoutNumbers();
    for (const text of ['ttft>0', 'ttft<1', 'ttft>=0', 'ttft:0', '-ttft>5', '-ttft<5', 'status:5xx', 'cached<50%', 'prompt<10']) {
      expect([text, matchesRow(text, row)]).toEqual([text, false]);
    }
    expect(matchesRow('-ttft:*', row)).toBe(true);
    expect(matchesRow('ttft:*', row)).toBe(false);
    // Hiding 5xx must not hide what is still running.
    expect(matchesRow('-status:5xx', row)).toBe(true);
  });

  it.each([
    ['role:decode ttft>150 model:Qwen3-8B', 'decode, first token after 150 ms, model contains Qwen3-8B'],
    ['status:5xx,404 -state:aborted', 'status 5xx or 404, not aborted'],
    ['-ttft>0.5s', 'first token at most 0.5 s'],
    ['prompt>4k bytes<=1.5MB', 'prompt tokens over 4k, response at most 1.5 MB'],
    ['error:* -model:*', 'error present, model absent'],
    ['stream:no instance:P0,P1', 'not streaming, instance P0 or P1'],
    ['-timeout "two words"', 'without the text "timeout", with the text "two words"'],
    ['status:200..299', 'status 200 to 299'],
  ])('reads %j back as %j', (text, reading) => {
    expect(compileFilter(text, REQUEST_FILTER_FIELDS)).toMatchObject({ ok: true, reading });
  });

  it.each([
    ['stauts:200', 0, 'There is no field "stauts". Did you mean status? To look for the text itself, put it in quotes.'],
    ['state:ok tft>5', 9, 'There is no field "tft". Did you mean ttft? To look for the text itself, put it in quotes.'],
    ['http://x', 0, 'There is no field "http". To look for the text itself, put it in quotes.'],
    ['state:eror', 6, 'state is one of running, ok, error, aborted. Did you mean error?'],
    ['ttft>fast', 5, 'ttft needs a number, "fast" is none. Units: us, ms, s, min, h.'],
    ['ttft>5MB', 5, 'ttft needs a number, "5MB" is none. Units: us, ms, s, min, h.'],
    ['ttft>1,2', 7, 'ttft> compares with one value. For several write ttft:a,b.'],
    ['status:6xx', 7, 'status needs a number or a class such as 5xx, "6xx" is none. Units: k, M.'],
    ['model>a', 0, 'model has no order: write model:value instead of model>value.'],
    ['stream:maybe', 7, 'stream is yes or no.'],
    ['status=200', 0, 'Write status:200 with a colon.'],
  ])('explains %j', (text, at, error) => {
    expect(compileFilter(text, REQUEST_FILTER_FIELDS)).toMatchObject({ ok: false, at, error });
  });

  it('keeps the reading of what came before the problem', () => {
    expect(compileFilter('state:ok ttft>', REQUEST_FILTER_FIELDS)).toMatchObject({ ok: false, at: 14, reading: 'ok' });
  });

  it('does not take names of Object for units or words', () => {
    expect(compileFilter('ttft>5constructor', REQUEST_FILTER_FIELDS)).toMatchObject({ ok: false });
    expect(compileFilter('stream:constructor', REQUEST_FILTER_FIELDS)).toMatchObject({ ok: false });
  });

  it('never throws and answers a boolean for any text over any field', () => {
    const value = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom('*', '5xx', '1..2', '0x9f', 'yes', '1e9', '"a b"', 'a*b'));
    const op = fc.constantFrom(':', '>', '>=', '<', '<=', ':>');
    const term = fc.tuple(fc.constantFrom('', '-'), fc.constantFrom(...REQUEST_FILTER_FIELDS.map((field) => field.key)), op, value).map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.array(fc.oneof(term, fc.string({ maxLength: 10 })), { maxLength: 5 }), (terms) => {
        const text = terms.join(' ');
        const filter = compileFilter(text, REQUEST_FILTER_FIELDS);
        const answers = filter.ok ? [filter.matches(requestRow()), filter.matches(withoutNumbers())] : [filter.error.length > 10];
        expect(answers.every((answer) => typeof answer === 'boolean')).toBe(true);
        expect(filter.ok || filter.at <= text.length).toBe(true);
      }),
      { numRuns: 1500 },
    );
  });
});

describe('compileFilter on KV events', () => {
  it.each([
    ['type:stored,removed medium:gpu,cpu', true],
    ['type:gap', false],
    ['hash:9f3a', true],
    ['hash:0x9F3AC4D1A0000002', true],
    ['hash:9f3ac4d1…', true],
    ['hash:3ac4', false],
    ['parent:1c77', true],
    ['token:8948', true],
    ['token:89', false],
    ['tokens:32 blocks:2', true],
    ['blocks>2', false],
    ['seq:48100..48200', true],
    ['stream:p0/0', true],
    ['stream:P0', true],
    ['instance:d0', false],
    ['lora:*', false],
    ['-lora:*', true],
    ['9f3ac4', true],
    ['epoch:1 rank:0', true],
  ])('%j matches the event: %s', (text, isMatch) => {
    expect(kvMatches(text)).toBe(isMatch);
  });

  it('finds notes and LoRA by name or id', () => {
    expect(kvMatches('type:gap note:missed', { kind: 'gap', note: '23 batches missed' })).toBe(true);
    expect(kvMatches('lora:sql', { loraName: 'text2SQL' })).toBe(true);
    expect(kvMatches('lora:7', { loraId: 7 })).toBe(true);
  });

  it('refuses a hash that is not hex', () => {
    expect(compileFilter('hash:xyz', KV_FILTER_FIELDS)).toMatchObject({ ok: false, at: 5 });
  });
});
