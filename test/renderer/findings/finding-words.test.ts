import { describe, expect, it } from 'vitest';
import { blockedWords, effectWords, findingText } from '../../../renderer/src/findings/finding-words.ts';
import { sampleFinding } from '../fixtures/sample-findings.ts';

describe('blockedWords', () => {
  it.each([
    [{ effect: 'kills', count: 1, blocked: 1 }, true, 'The leg was held back; clients got 502 with the reason'],
    [{ effect: 'kills', count: 30, blocked: 12 }, true, '12 of 30 legs were held back; their clients got 502 with the reason'],
    [{ effect: 'hangs', count: 30, blocked: 0 }, false, 'No leg was held back: blocking is switched off'],
    [{ effect: 'hangs', count: 30, blocked: 0 }, true, 'No leg was held back: it was seen too late for that'],
    [{ count: 30, blocked: 0 }, true, undefined],
  ] as const)('%o while blocking is %s', (finding, isBlocking, expected) => {
    expect(blockedWords(finding, isBlocking)).toBe(expected);
  });
});

describe('effectWords', () => {
  it('names the engine where it is known', () => {
    expect(effectWords({ effect: 'kills', instanceName: 'P0' })).toBe('P0 would die of it');
    expect(effectWords({ effect: 'hangs' })).toBe('the engine would hold the request without an end');
    expect(effectWords({})).toBeUndefined();
  });
});

describe('findingText', () => {
  it('is complete enough for a ticket: diagnosis, next step, every kept case', () => {
    const lines = findingText(sampleFinding({ effect: 'hangs', blocked: 31 }), true).trimEnd().split('\n');
    expect(lines[0]).toBe('ERROR: Prefill handed over nothing (P0, nixl)');
    expect(lines[1]).toMatch(/^code null_params, seen 31 times, first \d{4}-\d\d-\d\d .*, last /);
    expect(lines[2]).toBe('P0 would hold the request without an end.');
    expect(lines[3]).toBe('All 31 legs were held back; clients got 502 with the reason.');
    expect(lines[4]).toBe('Next step: Start P0 with --kv-transfer-config and kv_role kv_both.');
    expect(lines[5]).toMatch(/prefill->proxy: kv_transfer_params is null; decode computes 4,982 tokens again \[chatcmpl-7f3a0007\]$/);
    expect(lines).toHaveLength(7);
  });
});
