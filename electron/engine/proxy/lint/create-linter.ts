/**
 * The linter: on every hop it runs the rules of the connector in force (contracts.ts) over the parameters' text and
 * over what is known of the instances.
 *
 * Who reports what: a run without handoff (`decode_only`, `handoff_not_possible`) and what a connector corrected or
 * found out by itself are the connector's own verdicts; the linter looks at what actually goes over the wire, so it is
 * silent about what was corrected before.
 *
 * Cost, measured on one (slow) core: 9 to 10 µs for the four hops of a NIXL request with 100 blocks together, 4 of them
 * for the one pass over the prefill answer's text; the decode leg carries the same text, which is not read again.
 * State is bounded: references and engine ids are forgotten, those touched least recently first, and those of removed
 * instances at once.
 */
import type { Hop, Verdict } from '#shared/findings.ts';
import { cut } from '../../cut-text.ts';
import type { FleetRoster } from '../../fleet/ports.ts';
import type { LegFacts } from '../../telemetry/trace.ts';
import type { ClientRequest } from '../client-request.ts';
import type { LegRequest } from '../connectors/connector.ts';
import { KV_TRANSFER_PARAMS } from '../connectors/transfer-params.ts';
import type { LegHeaders } from '../headers.ts';
import { memberValue, scanMembers } from '../json-members.ts';
import { CONTRACTS, ENGINE_CONTRACTS } from './contracts.ts';
import { EngineBook } from './engine-book.ts';
import type { LintContext, Linter } from './linter.ts';
import { ParamsView } from './params-view.ts';
import { ReferenceBook } from './reference-book.ts';
import { createMemory, type RequestMemory } from './request-memory.ts';
import { judge, type Contract, type Subject } from './rule.ts';

export interface LinterOptions {
  /** Instances that leave it are forgotten. Default: none leaves. */
  readonly fleet?: Pick<FleetRoster, 'onRemoved'>;
  /** References to kept KV that are remembered. Default 20,000. */
  readonly references?: number;
  /** Monotonic, milliseconds. Default: performance.now. */
  readonly now?: () => number;
}

const NOTHING: readonly Verdict[] = [];
/** Of a client's parameters that are looked at. */
const MAX_TEXT_BYTES = 64 * 1024;

export function createLinter(options: LinterOptions = {}): Linter {
  const linter = new ContractLinter(options);
  options.fleet?.onRemoved(({ id }) => linter.engines.forget(id));
  return linter;
}

class ContractLinter implements Linter {
  readonly engines = new EngineBook();
  readonly #references: ReferenceBook;
  readonly #now: () => number;
  /** Most connectors send one and the same text to every prefill leg. */
  #prefillView: ParamsView | undefined;

  constructor(options: LinterOptions) {
    this.#references = new ReferenceBook(options.references ?? 20_000);
    this.#now = options.now ?? (() => performance.now());
  }

  sending(context: LintContext, leg: LegRequest, headers: LegHeaders): readonly Verdict[] {
    const { request } = context;
    const memory = (context.memory ??= createMemory());
    this.engines.follow(leg.instance);
    const hasOwnParams = clientParams(request) !== undefined;
    const passedOn = hasOwnParams && leg.kvTransferParams === undefined ? passedOnParams(request, leg) : undefined;
    const text = leg.kvTransferParams ?? passedOn;
    const params = text === undefined ? undefined : this.#view(text, memory, leg);
    if (leg.kind === 'prefill' || leg.kind === 'decode') noteLeg(memory, leg, { headers, params });
    const subject = this.#subject({ context, leg, params, headers, memory });
    const own = CONTRACTS[context.connector];
    const hop = sendingHop(leg);
    let verdicts = hop === undefined ? NOTHING : judgeAll(own, hop, subject);
    if (hasOwnParams) verdicts = [...this.#judgeClient(subject, passedOn !== undefined), ...verdicts];
    if (passedOn !== undefined) {
      // The engine's contract and the protocol's may share rules; one thing is said once.
      const said = new Set(verdicts.map(({ code }) => code));
      verdicts = [...verdicts, ...judgeForEngine(own, subject).filter(({ code }) => !said.has(code))];
    }
    return verdicts;
  }

  answered(context: LintContext, leg: LegRequest, facts: LegFacts): readonly Verdict[] {
    if (leg.kind !== 'prefill' && leg.kind !== 'decode') return NOTHING;
    const memory = (context.memory ??= createMemory());
    const text = facts.kvTransferParams;
    const params = text === undefined || text === 'null' ? undefined : this.#view(text, memory, leg);
    if (leg.kind === 'prefill') memory.prefillPromptTokens = facts.usage?.promptTokens;
    return judgeAll(CONTRACTS[context.connector], `${leg.kind}->proxy`, this.#subject({ context, leg, params, facts, memory }));
  }

  neverSent({ kvTransferParams }: LegRequest): void {
    const reference = typeof kvTransferParams === 'string' ? new ParamsView(kvTransferParams).reference : undefined;
    if (reference !== undefined) this.#references.notUsed(reference);
  }

  #subject(given: {
    readonly context: LintContext; readonly leg: LegRequest; readonly params: ParamsView | undefined; readonly memory: RequestMemory;
    readonly headers?: LegHeaders; readonly facts?: LegFacts;
  }): Subject {
    const { context, leg, params, memory, headers, facts } = given;
    return { leg, request: context.request, params, headers, facts, memory, engines: this.engines, references: this.#references, nowMs: this.#now() };
  }

  #view(value: unknown, memory: RequestMemory, { kind }: LegRequest): ParamsView {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    if (memory.view?.text === text) return memory.view;
    if (kind === 'prefill' && this.#prefillView?.text === text) return this.#prefillView;
    const view = new ParamsView(text);
    if (kind === 'prefill' && memory.prefill === undefined) this.#prefillView = view;
    memory.view = view;
    return view;
  }

  /** Once per request: what became of the parameters that the client sent. */
  #judgeClient({ memory, leg, request }: Subject, isPassedOn: boolean): readonly Verdict[] {
    const what = isPassedOn ? 'passed_on' : 'replaced';
    if (memory.saidOfClient === what || (!isPassedOn && leg.kvTransferParams === undefined)) return NOTHING;
    memory.saidOfClient = what;
    const given = cut(clientParams(request) ?? '', 120);
    return [
      {
        code: `client_params_${what}`,
        severity: isPassedOn ? 'warning' : 'info',
        title: isPassedOn ? "The client's own kv_transfer_params went to the engine" : "The client's own kv_transfer_params were replaced",
        message: isPassedOn ? `${leg.instance.name} got the client's ${given}.` : `The leg on ${leg.instance.name} carries the protocol's; the client sent ${given}.`,
        nextStep: isPassedOn
          ? 'Keep clients from sending kv_transfer_params, unless they are meant to: they reach into the KV cache of other requests.'
          : 'Nothing, if the client is a proxy of its own by mistake; the protocol in force decides.',
        hop: 'client->proxy',
        instance: leg.instance.id,
      },
    ];
  }
}

function noteLeg(memory: RequestMemory, leg: LegRequest, { headers, params }: { readonly headers: LegHeaders; readonly params: ParamsView | undefined }): void {
  const note = {
    instance: leg.instance,
    rank: leg.rank,
    requestId: headers['x-request-id'],
    path: leg.path,
    transferId: params?.string('transfer_id'),
  };
  if (leg.kind === 'decode') {
    // Without parameters it computes the prompt itself, and is nobody's pair.
    memory.decode = params === undefined ? undefined : note;
    return;
  }
  // A second prefill leg begins a new pair; a first one may come after its decode leg.
  if (memory.prefill !== undefined) memory.decode = undefined;
  memory.prefill = note;
  memory.prefillPromptTokens = undefined;
}

function sendingHop({ kind }: LegRequest): Hop | undefined {
  return kind === 'forward' ? undefined : `proxy->${kind}`;
}

function judgeAll(contract: Contract, hop: Hop, subject: Subject): readonly Verdict[] {
  const rules = contract[hop];
  if (rules === undefined) return NOTHING;
  let verdicts: Verdict[] | undefined;
  for (const rule of rules) {
    const verdict = judge(rule, subject, hop);
    if (verdict !== undefined) (verdicts ??= []).push(verdict);
  }
  return verdicts ?? NOTHING;
}

/**
 * Parameters that a client sent and nobody replaced, against what the engine itself expects, when it said what it is:
 * a client must not be able to end an engine.
 */
function judgeForEngine(own: Contract, subject: Subject): readonly Verdict[] {
  const contract = ENGINE_CONTRACTS[subject.leg.instance.transfer?.kvConnector ?? ''];
  if (contract === undefined || contract === own) return NOTHING;
  return judgeAll(contract, 'proxy->decode', subject).filter(({ effect }) => effect !== undefined);
}

/** The client's own parameters as JSON text, when it sent any. */
function clientParams({ api, json, body, members }: ClientRequest): string | undefined {
  if (api === 'generate') return nestedParams(json);
  const own = json[KV_TRANSFER_PARAMS];
  if (own === undefined || own === null) return undefined;
  return memberValue(body, members, KV_TRANSFER_PARAMS)?.toString('utf8', 0, MAX_TEXT_BYTES);
}

/** vllm/entrypoints/serve/token_in_token_out/serving.py ignores the top-level field; this one is read. */
function nestedParams(json: ClientRequest['json']): string | undefined {
  const extra = asObject(asObject(json['sampling_params'])?.['extra_args']);
  const own = extra?.[KV_TRANSFER_PARAMS];
  return own === undefined || own === null ? undefined : JSON.stringify(own).slice(0, MAX_TEXT_BYTES);
}

function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

/** Those of them that are still in the leg's body. */
function passedOnParams(request: ClientRequest, leg: LegRequest): string | undefined {
  if (leg.body === request.body || request.api === 'generate') return clientParams(request);
  const members = scanMembers(leg.body);
  const value = members === undefined ? undefined : memberValue(leg.body, members, KV_TRANSFER_PARAMS);
  return value === undefined || value.toString('latin1', 0, 4) === 'null' ? undefined : value.toString('utf8', 0, MAX_TEXT_BYTES);
}
