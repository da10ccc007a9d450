/**
 * Findings: equal verdicts gathered under one diagnosis, with the latest cases as evidence. Bounded: the finding that
 * was not seen for the longest time leaves first, and is counted.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { Finding, FindingEvidence, FindingsPage, FindingsSummary, Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';

/** What a verdict is about, beside itself. */
export interface VerdictSubject {
  readonly connector?: ConnectorName;
  readonly instanceName?: string;
  /** Absent when it is not about one request. */
  readonly request?: NonNullable<FindingEvidence['request']>;
}

export interface VerdictSink {
  report(verdict: Verdict, subject: VerdictSubject): void;
}

export interface FindingsOptions {
  /** Default 500. */
  readonly capacity?: number;
  /** Cases kept per finding. Default 20. */
  readonly evidence?: number;
  /** Unix milliseconds. Default: the system clock. */
  readonly now?: () => number;
}

type Kept = { -readonly [K in keyof Finding]: Finding[K] } & { evidence: FindingEvidence[] };

export class Findings implements VerdictSink {
  readonly #capacity: number;
  readonly #evidence: number;
  readonly #now: () => number;
  /** Least recently seen first. */
  readonly #byId = new Map<string, Kept>();
  #evicted = 0;
  #revision = 0;

  constructor(options: FindingsOptions = {}) {
    this.#capacity = options.capacity ?? 500;
    this.#evidence = options.evidence ?? 20;
    this.#now = options.now ?? Date.now;
  }

  report(verdict: Verdict, subject: VerdictSubject = {}): void {
    const id = [verdict.code, subject.connector ?? '-', verdict.instance ?? '-'].join('/');
    const known = this.#byId.get(id);
    const atUnixMs = this.#now();
    const finding = known ?? create(id, verdict, subject, atUnixMs);
    finding.count += 1;
    if (verdict.isBlocked === true) finding.blocked += 1;
    finding.lastAtUnixMs = atUnixMs;
    finding.severity = verdict.severity;
    finding.nextStep = verdict.nextStep;
    finding.isDismissed = false;
    finding.evidence.unshift({
      atUnixMs,
      message: verdict.message,
      ...(verdict.hop !== undefined && { hop: verdict.hop }),
      ...(subject.request !== undefined && { request: subject.request }),
    });
    if (finding.evidence.length > this.#evidence) finding.evidence.length = this.#evidence;
    this.#byId.delete(id);
    this.#byId.set(id, finding);
    this.#evict();
    this.#revision += 1;
  }

  /** Errors first, then warnings, then the rest; each newest first. */
  list(filter: { readonly all?: boolean | undefined; readonly instance?: InstanceId | undefined } = {}): FindingsPage {
    const order = { error: 0, warning: 1, info: 2 };
    const findings = [...this.#byId.values()]
      .filter((finding) => filter.all === true || !finding.isDismissed)
      .filter((finding) => filter.instance === undefined || finding.instance === filter.instance)
      .reverse()
      .sort((a, b) => order[a.severity] - order[b.severity])
      .map((finding) => ({ ...finding, evidence: [...finding.evidence] }));
    return { findings, summary: this.summary() };
  }

  summary(): FindingsSummary {
    const open = { info: 0, warning: 0, error: 0 };
    let dismissed = 0;
    for (const { isDismissed, severity } of this.#byId.values()) {
      if (isDismissed) dismissed += 1;
      else open[severity] += 1;
    }
    return { open, dismissed, evicted: this.#evicted, revision: this.#revision };
  }

  /** Hidden until it is seen again. @throws PdscopeError `finding_not_found`. */
  dismiss(id: string): void {
    const finding = this.#byId.get(id);
    if (finding === undefined) throw new PdscopeError('finding_not_found', `There is no finding "${id}": it was cleared or evicted.`);
    finding.isDismissed = true;
    this.#revision += 1;
  }

  clear(): number {
    const cleared = this.#byId.size;
    this.#byId.clear();
    this.#revision += 1;
    return cleared;
  }

  #evict(): void {
    for (const id of this.#byId.keys()) {
      if (this.#byId.size <= this.#capacity) return;
      this.#byId.delete(id);
      this.#evicted += 1;
    }
  }
}

function create(id: string, verdict: Verdict, subject: VerdictSubject, atUnixMs: number): Kept {
  return {
    id,
    code: verdict.code,
    severity: verdict.severity,
    title: verdict.title,
    nextStep: verdict.nextStep,
    ...(verdict.instance !== undefined && { instance: verdict.instance }),
    ...(subject.instanceName !== undefined && { instanceName: subject.instanceName }),
    ...(subject.connector !== undefined && { connector: subject.connector }),
    ...(verdict.effect !== undefined && { effect: verdict.effect }),
    firstAtUnixMs: atUnixMs,
    lastAtUnixMs: atUnixMs,
    count: 0,
    blocked: 0,
    isDismissed: false,
    evidence: [],
  };
}
