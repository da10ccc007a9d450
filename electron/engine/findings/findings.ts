/**
 * Findings: equal verdicts gathered under one diagnosis, with the latest cases as evidence. Bounded: the finding that
 * was not seen for the longest time leaves first, and is counted; texts are cut.
 *
 * A finding is one code about one instance under one protocol. Its title stays that of the first verdict; severity,
 * effect and next step are those of the worst one seen, because a problem that killed an engine once is not small
 * because its last case was. Evidence has one line per request.
 *
 * A dismissal holds while the same is seen again, else it were of no use for what lasts; sightings are counted meanwhile.
 * It ends when severity or effect get worse, when a person brings the finding back, and with the first sighting after
 * its time.
 */
import { PdscopeError } from '#shared/errors.ts';
import { SEVERITIES, type Dismissal, type Finding, type FindingEvidence, type FindingsPage, type FindingsSummary, type Severity, type Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { cut } from '../cut-text.ts';

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

/** For conditions that are watched, and end. */
export interface ConditionSink extends VerdictSink {
  /** It is no more: its finding closes by itself. Nothing happens when there is none. */
  settle(verdict: Pick<Verdict, 'code' | 'instance'>): void;
}

export interface FindingsOptions {
  /** Default 500. */
  readonly capacity?: number;
  /** Cases kept per finding. Default 20. */
  readonly evidence?: number;
  /** Unix milliseconds. Default: the system clock. */
  readonly now?: () => number;
}

/** Since the start, whatever was cleared or evicted. */
export interface FindingCount {
  readonly code: string;
  readonly severity: Severity;
  /** Verdicts of this code and severity. */
  readonly count: number;
  /** Those for which a leg was held back. */
  readonly blocked: number;
}

/** Codes are words in the source; more than this many are not. */
const MAX_COUNTS = 1000;
/** A shift: whoever comes next sees what is still there. */
const DISMISSED_FOR_MS = 8 * 3_600_000;
const MAX_MESSAGE = 1000;
const MAX_TITLE = 200;
const MAX_NEXT_STEP = 600;

type Kept = { -readonly [K in keyof Finding]: Finding[K] } & { evidence: FindingEvidence[] };

export class Findings implements ConditionSink {
  readonly #capacity: number;
  readonly #evidence: number;
  readonly #now: () => number;
  /** Least recently seen first. */
  readonly #byId = new Map<string, Kept>();
  readonly #counts = new Map<string, { -readonly [K in keyof FindingCount]: FindingCount[K] }>();
  #evicted = 0;
  #revision = 0;

  constructor(options: FindingsOptions = {}) {
    this.#capacity = options.capacity ?? 500;
    this.#evidence = options.evidence ?? 20;
    this.#now = options.now ?? Date.now;
  }

  report(verdict: Verdict, subject: VerdictSubject = {}): void {
    const id = idOf(verdict, subject);
    const atUnixMs = this.#now();
    const finding = this.#byId.get(id) ?? create(id, verdict, subject, atUnixMs);
    finding.count += 1;
    if (verdict.isBlocked === true) finding.blocked += 1;
    finding.lastAtUnixMs = atUnixMs;
    delete finding.overAtUnixMs;
    if (subject.instanceName !== undefined) finding.instanceName = subject.instanceName;
    const isWorse = escalate(finding, verdict);
    const { dismissal } = finding;
    if (dismissal === undefined || isWorse || atUnixMs > dismissal.untilUnixMs) open(finding);
    else finding.dismissal = { ...dismissal, seenAgain: dismissal.seenAgain + 1 };
    this.#addEvidence(finding, {
      atUnixMs,
      message: cut(verdict.message, MAX_MESSAGE),
      ...(verdict.hop !== undefined && { hop: verdict.hop }),
      ...(subject.request !== undefined && { request: subject.request }),
    });
    this.#byId.delete(id);
    this.#byId.set(id, finding);
    this.#evict();
    this.#countIn(verdict);
    this.#revision += 1;
  }

  settle(verdict: Pick<Verdict, 'code' | 'instance'>): void {
    const finding = this.#byId.get(idOf(verdict, {}));
    if (finding === undefined) return;
    finding.isDismissed = true;
    finding.overAtUnixMs = this.#now();
    this.#revision += 1;
  }

  /** Totals by code and severity. */
  counts(): Iterable<FindingCount> {
    return this.#counts.values();
  }

  /** Errors first, then warnings, then the rest; each newest first. */
  list(filter: { readonly all?: boolean | undefined; readonly instance?: InstanceId | undefined } = {}): FindingsPage {
    const findings = [...this.#byId.values()]
      .filter((finding) => filter.all === true || !finding.isDismissed)
      .filter((finding) => filter.instance === undefined || finding.instance === filter.instance)
      .reverse()
      .sort((a, b) => rankOf(b.severity) - rankOf(a.severity))
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

  /** Hidden until it gets worse, is seen after its time, or is brought back. @throws PdscopeError `finding_not_found`. */
  dismiss(id: string): void {
    const finding = this.#find(id);
    const atUnixMs = this.#now();
    const dismissal: Dismissal = { atUnixMs, untilUnixMs: atUnixMs + DISMISSED_FOR_MS, seenAgain: 0 };
    Object.assign(finding, { isDismissed: true, dismissal });
    this.#revision += 1;
  }

  /** Open again; one that is open stays so. @throws PdscopeError `finding_not_found`. */
  restore(id: string): void {
    open(this.#find(id));
    this.#revision += 1;
  }

  clear(): number {
    const cleared = this.#byId.size;
    this.#byId.clear();
    this.#revision += 1;
    return cleared;
  }

  #find(id: string): Kept {
    const finding = this.#byId.get(id);
    if (finding === undefined) throw new PdscopeError('finding_not_found', `There is no finding "${id}": it was cleared or evicted.`);
    return finding;
  }

  /** The newest first, one per request. */
  #addEvidence({ evidence }: Kept, added: FindingEvidence): void {
    const { request } = added;
    const same = request === undefined ? -1 : evidence.findIndex((known) => known.request?.id === request.id);
    if (same >= 0) evidence.splice(same, 1);
    evidence.unshift(added);
    if (evidence.length > this.#evidence) evidence.length = this.#evidence;
  }

  #countIn({ code, severity, isBlocked }: Verdict): void {
    const key = `${code} ${severity}`;
    let entry = this.#counts.get(key);
    if (entry === undefined) {
      if (this.#counts.size >= MAX_COUNTS) return;
      entry = { code, severity, count: 0, blocked: 0 };
      this.#counts.set(key, entry);
    }
    entry.count += 1;
    if (isBlocked === true) entry.blocked += 1;
  }

  #evict(): void {
    for (const id of this.#byId.keys()) {
      if (this.#byId.size <= this.#capacity) return;
      this.#byId.delete(id);
      this.#evicted += 1;
    }
  }
}

function idOf({ code, instance }: Pick<Verdict, 'code' | 'instance'>, { connector }: VerdictSubject): string {
  return [code, connector ?? '-', instance ?? '-'].join('/');
}

function create(id: string, verdict: Verdict, subject: VerdictSubject, atUnixMs: number): Kept {
  return {
    id,
    code: verdict.code,
    severity: verdict.severity,
    title: cut(verdict.title, MAX_TITLE),
    nextStep: cut(verdict.nextStep, MAX_NEXT_STEP),
    ...(verdict.instance !== undefined && { instance: verdict.instance }),
    ...(subject.connector !== undefined && { connector: subject.connector }),
    firstAtUnixMs: atUnixMs,
    lastAtUnixMs: atUnixMs,
    count: 0,
    blocked: 0,
    isDismissed: false,
    evidence: [],
  };
}

function open(finding: Kept): void {
  finding.isDismissed = false;
  delete finding.dismissal;
}

/** Whether the finding is worse than it was. */
function escalate(finding: Kept, { severity, effect, nextStep }: Verdict): boolean {
  const before = { severity: finding.severity, effect: finding.effect };
  if (rankOf(severity) > rankOf(finding.severity)) {
    finding.severity = severity;
    finding.nextStep = cut(nextStep, MAX_NEXT_STEP);
  }
  // Dying is worse than hanging.
  if (effect === 'kills' || (effect !== undefined && finding.effect === undefined)) finding.effect = effect;
  return finding.severity !== before.severity || finding.effect !== before.effect;
}

function rankOf(severity: Severity): number {
  return SEVERITIES.indexOf(severity);
}
