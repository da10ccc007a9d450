import { describe, expect, it } from 'vitest';
import { Findings } from '#engine/findings/findings.ts';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';

const P0 = 'p0' as InstanceId;

function verdict(extra: Partial<Verdict> = {}): Verdict {
  return { code: 'late_read', severity: 'warning', title: 'Late', message: 'seen', nextStep: 'look', ...extra };
}

function request(n: number): { readonly id: RecordId; readonly n: number; readonly requestId: string } {
  return { id: `r${n}` as RecordId, n, requestId: `req-${n}` };
}

describe('findings', () => {
  it('gather equal verdicts, one finding per code, instance and protocol', () => {
    let now = 1000;
    const findings = new Findings({ now: () => now });
    findings.report(verdict({ instance: P0, hop: 'proxy->decode', message: 'first' }), { connector: 'nixl', instanceName: 'P0', request: request(1) });
    now = 2000;
    findings.report(verdict({ instance: P0, message: 'second', title: 'Another title', isBlocked: true }), { connector: 'nixl', request: request(2) });
    findings.report(verdict({ instance: 'p1' as InstanceId }), { connector: 'nixl' });
    findings.report(verdict({ instance: P0 }), { connector: 'mooncake' });
    findings.report(verdict({ code: 'other' }), {});
    const page = findings.list();
    expect(page.findings.map(({ id }) => id)).toEqual(['other/-/-', 'late_read/mooncake/p0', 'late_read/nixl/p1', 'late_read/nixl/p0']);
    expect(page.findings.at(-1)).toEqual({
      id: 'late_read/nixl/p0', code: 'late_read', severity: 'warning', title: 'Late', nextStep: 'look', instance: 'p0', instanceName: 'P0', connector: 'nixl',
      firstAtUnixMs: 1000, lastAtUnixMs: 2000, count: 2, blocked: 1, isDismissed: false,
      evidence: [
        { atUnixMs: 2000, message: 'second', request: request(2) },
        { atUnixMs: 1000, message: 'first', hop: 'proxy->decode', request: request(1) },
      ],
    });
    expect(page.summary).toMatchObject({ open: { info: 0, warning: 4, error: 0 }, dismissed: 0, evicted: 0, revision: 5 });
    expect(findings.list({ instance: P0 }).findings).toHaveLength(2);
  });

  it('keep the worst severity and effect that were seen, with the next step that belongs to it', () => {
    const findings = new Findings();
    findings.report(verdict({ severity: 'info', nextStep: 'nothing' }));
    findings.report(verdict({ severity: 'error', nextStep: 'act', effect: 'hangs' }));
    findings.report(verdict({ severity: 'warning', nextStep: 'watch', effect: 'kills' }));
    findings.report(verdict({ severity: 'info', effect: 'hangs' }));
    expect(findings.list().findings).toMatchObject([{ severity: 'error', nextStep: 'act', effect: 'kills', count: 4 }]);
  });

  it('list errors first, each severity newest first', () => {
    const findings = new Findings();
    for (const [code, severity] of [['a', 'info'], ['b', 'error'], ['c', 'warning'], ['d', 'error']] as const) findings.report(verdict({ code, severity }));
    expect(findings.list().findings.map(({ code }) => code)).toEqual(['d', 'b', 'c', 'a']);
  });

  it('have one line of evidence per request, the latest', () => {
    const findings = new Findings({ evidence: 3 });
    for (const n of [1, 2, 1]) findings.report(verdict({ message: `of ${n}` }), { request: request(n) });
    findings.report(verdict({ message: 'of none' }));
    findings.report(verdict({ message: 'of none again' }));
    expect(findings.list().findings[0]?.evidence.map(({ message }) => message)).toEqual(['of none again', 'of none', 'of 1']);
    expect(findings.list().findings[0]?.count).toBe(5);
  });

  it('cut what is too long', () => {
    const findings = new Findings();
    findings.report(verdict({ title: 't'.repeat(5000), message: 'm'.repeat(5000), nextStep: 'n'.repeat(5000) }));
    const [finding] = findings.list().findings;
    expect(finding?.title).toHaveLength(200);
    expect(finding?.nextStep).toHaveLength(600);
    expect(finding?.evidence[0]?.message).toHaveLength(1000);
    expect(finding?.evidence[0]?.message.endsWith('m…')).toBe(true);
  });

  it('forget the one not seen for the longest time, and count it', () => {
    const findings = new Findings({ capacity: 2 });
    for (const code of ['a', 'b', 'a', 'c']) findings.report(verdict({ code }));
    expect(findings.list().findings.map(({ code }) => code)).toEqual(['c', 'a']);
    expect(findings.summary().evicted).toBe(1);
  });

  it('stay dismissed while the same is seen again, and count it, until their time is over', () => {
    let now = 1000;
    const findings = new Findings({ now: () => now });
    findings.report(verdict());
    const before = findings.summary().revision;
    findings.dismiss('late_read/-/-');
    expect(findings.list().findings).toEqual([]);
    expect(findings.list({ all: true }).findings).toHaveLength(1);
    expect(findings.summary()).toMatchObject({ open: { warning: 0 }, dismissed: 1, revision: before + 1 });
    const untilUnixMs = 1000 + 8 * 3_600_000;
    expect(findings.list({ all: true }).findings[0]?.dismissal).toEqual({ atUnixMs: 1000, untilUnixMs, seenAgain: 0 });
    now = untilUnixMs;
    for (let n = 0; n < 3; n += 1) findings.report(verdict());
    expect(findings.list().findings).toEqual([]);
    expect(findings.list({ all: true }).findings).toMatchObject([{ count: 4, lastAtUnixMs: untilUnixMs, isDismissed: true, dismissal: { seenAgain: 3 } }]);
    now += 1;
    findings.report(verdict());
    expect(findings.list().findings).toMatchObject([{ count: 5, isDismissed: false }]);
    expect(findings.list().findings[0]).not.toHaveProperty('dismissal');
    expect(() => findings.dismiss('nothing')).toThrow(expect.objectContaining({ code: 'finding_not_found' }));
  });

  it.each([
    ['a higher severity', { severity: 'error' }, true],
    ['an effect that was not seen before', { effect: 'hangs' }, true],
    ['a lower severity', { severity: 'info' }, false],
  ] as const)('seen after a dismissal with %s', (_, worse, isOpen) => {
    const findings = new Findings();
    findings.report(verdict());
    findings.dismiss('late_read/-/-');
    findings.report(verdict(worse));
    expect(findings.list().findings).toHaveLength(isOpen ? 1 : 0);
  });

  it('open by themselves after they were over, but not against a dismissal', () => {
    const findings = new Findings();
    const over = { code: 'late_read' };
    findings.report(verdict());
    findings.settle(over);
    expect(findings.list().findings).toEqual([]);
    findings.report(verdict());
    expect(findings.list().findings).toHaveLength(1);
    findings.dismiss('late_read/-/-');
    findings.settle(over);
    findings.report(verdict());
    expect(findings.list().findings).toEqual([]);
    expect(findings.list({ all: true }).findings).toMatchObject([{ isDismissed: true, dismissal: { seenAgain: 1 } }]);
  });

  it('are open again when brought back, with all that was seen of them', () => {
    const findings = new Findings();
    findings.report(verdict());
    findings.dismiss('late_read/-/-');
    const { revision } = findings.summary();
    findings.restore('late_read/-/-');
    expect(findings.list().findings).toMatchObject([{ count: 1, isDismissed: false }]);
    expect(findings.summary()).toMatchObject({ open: { warning: 1 }, dismissed: 0, revision: revision + 1 });
    expect(() => findings.restore('nothing')).toThrow(expect.objectContaining({ code: 'finding_not_found' }));
  });

  it('keep their totals by code and severity when they are cleared', () => {
    const findings = new Findings();
    findings.report(verdict());
    findings.report(verdict({ isBlocked: true }));
    findings.report(verdict({ severity: 'error' }));
    expect(findings.clear()).toBe(1);
    expect(findings.list({ all: true }).findings).toEqual([]);
    expect([...findings.counts()]).toEqual([
      { code: 'late_read', severity: 'warning', count: 2, blocked: 1 },
      { code: 'late_read', severity: 'error', count: 1, blocked: 0 },
    ]);
  });

  it('hand out lists that later reports do not change', () => {
    const findings = new Findings();
    findings.report(verdict());
    const { findings: list } = findings.list();
    findings.report(verdict());
    expect(list[0]).toMatchObject({ count: 1 });
    expect(list[0]?.evidence).toHaveLength(1);
  });
});
