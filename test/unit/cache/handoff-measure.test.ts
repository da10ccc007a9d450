import { describe, expect, it } from 'vitest';
import type { Confidence, MissReport } from '#shared/cache.ts';
import { RecordIdSchema, type InstanceId } from '#shared/ids.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { measureHandoff, type HandoffInput, type HandoffRecord } from '#engine/cache/handoff-measure.ts';

const p0 = 'p0' as InstanceId;
const d0 = 'd0' as InstanceId;
const d1 = 'd1' as InstanceId;
const SURE: Confidence = { value: 1, reasons: [] };
const report: MissReport = { request: RecordIdSchema.parse('r1'), state: 'ready', ranges: [], matches: [], confidence: SURE };

type Leg = HandoffRecord['legs'][number];
const leg = (kind: Leg['kind'], instance: InstanceId, params?: unknown): Leg => ({ kind, instance: { id: instance }, transferParamsSent: params });

/** A prefill and a decode leg; `held` of `promptTokens` when the decode leg was sent, unless it was not explained. */
function record(connector: ConnectorName, decode: InstanceId, held?: { readonly promptTokens: number; readonly heldTokens: number; readonly confidence?: Confidence }): HandoffRecord {
  return {
    init: { connector },
    legs: [leg('prefill', p0, '{}'), leg('decode', decode, '{"do_remote_prefill":true}')],
    why: held === undefined ? { state: 'unavailable', reason: 'no tokenizer', isPending: false } : { state: 'ready', report, shares: [], leg: 0, held: { leg: 1, confidence: SURE, ...held } },
  };
}

function measure(records: readonly HandoffRecord[], part: Partial<HandoffInput> = {}): ReturnType<typeof measureHandoff> {
  return measureHandoff({
    windowS: 300, left: [p0], right: [d0, d1], records,
    receivedBy: (instance) => (instance === p0 ? undefined : { tokens: 1000, from: 'prompt_tokens_by_source' }),
    storedAgain: (instances) => ({ blocks: 2 * instances.length, tokens: 32 * instances.length, announced: 0 }),
    confidenceIn: () => ({ value: 0.7, reasons: [] }),
    kvBytes: { bytesPerToken: 10, from: 'setting', detail: 'given' },
    ...part,
  });
}

describe('measureHandoff', () => {
  it('where only missing blocks are sent: second copies, of what the engines received', () => {
    const answer = measure([record('nixl', d0, { promptTokens: 600, heldTokens: 160 }), record('nixl', d1)]);
    expect(answer).toEqual({
      transferredTokens: 2000, redundantTokens: 64,
      handoff: {
        windowS: 300, resends: 'missing', connectors: ['nixl'],
        legs: { fetching: 2, known: 1, promptTokens: 600, heldTokens: 160, confidence: SURE },
        received: { tokens: 2000, from: 'prompt_tokens_by_source', instances: 2, bytes: 20_000, bytesFrom: 'tokens' },
        again: { blocks: 4, tokens: 64, announced: 0, confidence: { value: 0.7, reasons: [] } },
      },
    });
  });

  it('where everything is sent: what was held of the prompts, of the prompts that are known', () => {
    const answer = measure([record('moriio', d0, { promptTokens: 600, heldTokens: 160 }), record('moriio', d0, { promptTokens: 400, heldTokens: 0 }), record('moriio', d1)]);
    expect(answer).toMatchObject({ transferredTokens: 1000, redundantTokens: 160, handoff: { resends: 'all', legs: { fetching: 3, known: 2 } } });
    const unknown = measure([record('moriio', d0)]);
    expect([unknown.transferredTokens, unknown.redundantTokens]).toEqual([undefined, undefined]);
  });

  it.each<readonly [string, readonly HandoffRecord[], Partial<HandoffInput>]>([
    ['no leg fetched', [{ ...record('nixl', d0), legs: [leg('decode', d0)] }], {}],
    ['two protocols that differ', [record('nixl', d0), record('moriio', d0)], {}],
    ['a protocol not known', [record('plain', d0)], {}],
    ['legs of other instances', [record('nixl', 'd7' as InstanceId)], {}],
    ['engines without the counters', [record('nixl', d0)], { receivedBy: () => undefined }],
    ['no stream', [record('nixl', d0)], { storedAgain: () => undefined }],
  ])('is absent, not 0: %s', (_what, records, part) => {
    const { transferredTokens, redundantTokens, handoff } = measure(records, part);
    expect([transferredTokens, redundantTokens]).toEqual([undefined, undefined]);
    expect([handoff.received === undefined, handoff.again === undefined]).toEqual([part.receivedBy !== undefined, part.storedAgain !== undefined]);
  });

  it('knows no most that was sent in vain where second copies look like announced reuse', () => {
    const answer = measure([record('nixl', d0)], { storedAgain: () => ({ blocks: 1, tokens: 16, announced: 3 }) });
    expect([answer.redundantTokens, answer.transferredTokens, answer.handoff.again?.announced]).toEqual([undefined, undefined, 3]);
  });

  it('sets second copies against what the same instances received', () => {
    const half = measure([record('nixl', d0)], { receivedBy: (instance) => (instance === d0 ? { tokens: 1000, from: 'prompt_tokens_by_source' } : undefined) });
    expect([half.transferredTokens, half.redundantTokens, half.handoff.again?.tokens]).toEqual([1000, 32, 64]);
    const deaf = measure([record('nixl', d0)], { storedAgain: (instances) => (instances.includes(d0) ? { blocks: 2, tokens: 32, announced: 0 } : undefined) });
    expect([deaf.transferredTokens, deaf.redundantTokens]).toEqual([1000, 32]);
  });

  it('takes NIXL’s own bytes where it counts them: at the receiver, and with push at the sender', () => {
    const receivedBy: HandoffInput['receivedBy'] = (instance) => ({ tokens: instance === p0 ? 0 : 100, from: 'external_prefix_cache_hits', nixlBytes: instance === p0 ? 900 : instance === d0 ? 500 : 0 });
    expect(measure([record('nixl', d0)], { receivedBy }).handoff.received).toEqual({ tokens: 200, from: 'external_prefix_cache_hits', instances: 2, bytes: 500, bytesFrom: 'nixl' });
    expect(measure([record('nixl-push', d0)], { receivedBy }).handoff.received).toMatchObject({ bytes: 1400, bytesFrom: 'nixl' });
    expect(measure([record('mooncake', d0)], { kvBytes: undefined }).handoff.received).toEqual({ tokens: 2000, from: 'prompt_tokens_by_source', instances: 2 });
  });

  it('carries the lowest confidence of the prompts', () => {
    const doubt: Confidence = { value: 0.4, reasons: [{ code: 'joined-late', text: 'late' }] };
    const { handoff } = measure([record('nixl', d0, { promptTokens: 10, heldTokens: 0 }), record('nixl', d1, { promptTokens: 10, heldTokens: 0, confidence: doubt })]);
    expect(handoff.legs.confidence).toMatchObject({ value: 0.4, reasons: [{ text: 'late' }] });
  });
});
