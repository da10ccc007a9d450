/**
 * What pdscope concludes: verdicts about one hop of one request, and findings, which gather equal verdicts of many
 * requests under one diagnosis with evidence and a next step.
 */
import type { InstanceId, RecordId } from './ids.ts';
import type { ConnectorName } from './vocabulary.ts';

export const SEVERITIES = ['info', 'warning', 'error'] as const;
/** `error`: wrong or lost answers, or an engine at risk. `warning`: works, but not as meant. `info`: worth knowing. */
export type Severity = (typeof SEVERITIES)[number];

export const HOPS = [
  'client->proxy', 'proxy->encode', 'encode->proxy', 'proxy->render', 'render->proxy',
  'proxy->prefill', 'prefill->proxy', 'proxy->decode', 'decode->proxy',
] as const;
/** Where on its way a request was when something was seen. */
export type Hop = (typeof HOPS)[number];

/** One diagnosis about one request. */
export interface Verdict {
  /** Stable, snake_case: what is the matter; the same for every request it befalls. */
  readonly code: string;
  readonly severity: Severity;
  /** The diagnosis in a few words, without values of this request. */
  readonly title: string;
  /** What was seen, with values. */
  readonly message: string;
  /** What to do about it. */
  readonly nextStep: string;
  readonly hop?: Hop;
  /** The instance it is about. */
  readonly instance?: InstanceId;
  /** What the engine would do with it: die, or hold the request for ever. Such a leg may be blocked. */
  readonly effect?: 'kills' | 'hangs';
  /** True when the leg was not sent because of this. */
  readonly isBlocked?: boolean;
}

export interface FindingEvidence {
  readonly atUnixMs: number;
  readonly message: string;
  readonly hop?: Hop;
  /** Absent when the finding is not about one request. */
  readonly request?: { readonly id: RecordId; readonly n: number; readonly requestId: string };
}

/** Equal verdicts gathered: one per code, instance and connector. */
export interface Finding {
  readonly id: string;
  readonly code: string;
  readonly severity: Severity;
  readonly title: string;
  readonly nextStep: string;
  readonly instance?: InstanceId;
  readonly instanceName?: string;
  readonly connector?: ConnectorName;
  readonly effect?: 'kills' | 'hangs';
  readonly firstAtUnixMs: number;
  readonly lastAtUnixMs: number;
  /** How often it was seen, and in how many cases a leg was held back. */
  readonly count: number;
  readonly blocked: number;
  /** Not among the open ones: dismissed by a person, or over. */
  readonly isDismissed: boolean;
  /** While a person's dismissal holds; absent on one that is merely over. */
  readonly dismissal?: Dismissal;
  /** What it is about was looked at and is no more. Only of conditions that are watched, not of single requests. */
  readonly overAtUnixMs?: number;
  /** The latest, newest first; bounded. */
  readonly evidence: readonly FindingEvidence[];
}

/** A person has read it and wants it out of the way, though it may go on. It opens again when it gets worse. */
export interface Dismissal {
  readonly atUnixMs: number;
  /** The first sighting after this opens it again: what is true for days deserves another look. */
  readonly untilUnixMs: number;
  /** Sightings since it was dismissed. */
  readonly seenAgain: number;
}

/** For badges; `revision` grows with every change, so that lists know when to ask again. */
export interface FindingsSummary {
  readonly open: Readonly<Record<Severity, number>>;
  readonly dismissed: number;
  /** Findings forgotten because there were too many. */
  readonly evicted: number;
  readonly revision: number;
}

export interface FindingsPage {
  readonly findings: readonly Finding[];
  readonly summary: FindingsSummary;
}
