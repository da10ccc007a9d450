/** A rule of a connector's contract: what is looked at on one hop, and what is said when it is not as it must be. */
import type { Hop, Severity, Verdict } from '#shared/findings.ts';
import { cut } from '../../cut-text.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { LegFacts } from '../../telemetry/trace.ts';
import type { ClientRequest } from '../client-request.ts';
import type { LegRequest } from '../connectors/connector.ts';
import type { LegHeaders } from '../headers.ts';
import type { EngineBook } from './engine-book.ts';
import type { ParamsView } from './params-view.ts';
import type { ReferenceBook } from './reference-book.ts';
import type { RequestMemory } from './request-memory.ts';

export type Effect = NonNullable<Verdict['effect']>;

/** One hop of one request. */
export interface Subject {
  readonly leg: LegRequest;
  readonly request: ClientRequest;
  /** What the leg carries, or its answer; undefined when there is none. */
  readonly params: ParamsView | undefined;
  /** Of a leg about to be sent. */
  readonly headers: LegHeaders | undefined;
  /** Of an answer. */
  readonly facts: LegFacts | undefined;
  readonly memory: RequestMemory;
  readonly engines: EngineBook;
  readonly references: ReferenceBook;
  /** Monotonic, milliseconds. */
  readonly nowMs: number;
}

export interface Rule {
  readonly code: string;
  readonly severity: Severity;
  /** As Verdict.title: without values. */
  readonly title: string;
  readonly nextStep: string;
  readonly effect?: Effect | ((subject: Subject) => Effect | undefined);
  /** Whom the verdict names: the leg's instance (default), or the one whose answer the parameters came from. */
  readonly about?: 'leg' | 'giver';
  /** What was seen, with values; undefined when all is well. Must not throw. */
  find(subject: Subject): string | undefined;
}

/** Rules by hop. */
export type Contract = { readonly [H in Hop]?: readonly Rule[] };

export function judge(rule: Rule, subject: Subject, hop: Hop | undefined): Verdict | undefined {
  const message = rule.find(subject);
  if (message === undefined) return undefined;
  const effect = typeof rule.effect === 'function' ? rule.effect(subject) : rule.effect;
  const instance = rule.about === 'giver' ? (subject.memory.prefill?.instance ?? subject.leg.instance) : subject.leg.instance;
  return {
    code: rule.code,
    severity: rule.severity,
    title: rule.title,
    message,
    nextStep: rule.nextStep,
    ...(hop !== undefined && { hop }),
    instance: instance.id,
    ...(effect !== undefined && { effect }),
  };
}

type Said = Omit<Rule, 'find'>;

/** The first of `fields` that is missing or null is named with all others, when `when` holds (default: always). */
export function requires(fields: readonly string[], said: Said, when: (params: ParamsView) => boolean = () => true): Rule {
  return {
    ...said,
    find: ({ params, leg }) => {
      if (params === undefined || !params.isWhole || fields.every((field) => params.has(field)) || !when(params)) return undefined;
      const missing = fields.filter((field) => !params.has(field));
      return `The parameters for ${leg.instance.name} lack ${missing.join(', ')}.`;
    },
  };
}

/** A field that must not be there, other than null. */
export function forbids(field: string, said: Said, when: (params: ParamsView) => boolean = () => true): Rule {
  return {
    ...said,
    find: ({ params, leg }) => {
      if (params === undefined || !params.has(field) || !when(params)) return undefined;
      return `The parameters for ${leg.instance.name} carry ${field} (${cut(params.raw(field) ?? '', 80)}).`;
    },
  };
}

export function checks(said: Said, find: Rule['find']): Rule {
  return { ...said, find };
}

/** Tokens per block as the engine said: `/server_info`, else `cache_config_info`. */
export function blockSizeOf({ transfer, gauges }: Instance): number | undefined {
  return transfer?.blockSize ?? gauges?.blockSize;
}

/** A number out of `kv_connector_extra_config`. */
export function extraNumber({ transfer }: Instance, key: string): number | undefined {
  const value = transfer?.extraConfig?.[key];
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Whether vLLM's version is known to be before `major.minor`. Release numbers follow commits loosely: for hints only. */
export function isBefore({ version }: Instance, major: number, minor: number): boolean {
  const found = version === undefined ? null : /^v?(\d+)\.(\d+)/.exec(version);
  if (found === null) return false;
  const [own, ownMinor] = [Number(found[1]), Number(found[2])];
  // Development builds call themselves 0.1.dev1234.
  if (/^v?0\.1\.dev/.test(version ?? '')) return false;
  return own < major || (own === major && ownMinor < minor);
}

export function pulls(params: ParamsView): boolean {
  return params.isTrue('do_remote_prefill');
}
