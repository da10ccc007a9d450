/** One request past the linter, hop by hop, without sockets. */
import type { Instance } from '#engine/fleet/instance.ts';
import { parseBody, type ClientRequest } from '#engine/proxy/client-request.ts';
import type { LegRequest } from '#engine/proxy/connectors/connector.ts';
import { createLinter, type LinterOptions } from '#engine/proxy/lint/create-linter.ts';
import type { LintContext, Linter } from '#engine/proxy/lint/linter.ts';
import type { LegFacts } from '#engine/telemetry/trace.ts';
import type { Verdict } from '#shared/findings.ts';
import type { TransferFacts } from '#shared/instance.ts';
import type { Api, ConnectorName } from '#shared/vocabulary.ts';
import { fakeInstance } from '../telemetry/support.ts';

export function prefillInstance(transfer?: TransferFacts, extra: Partial<Instance> = {}): Instance {
  return fakeInstance('P0', 'prefill', { origin: 'http://10.0.0.1:8100', version: '0.29.0', transfer, ...extra });
}

export function decodeInstance(transfer?: TransferFacts, extra: Partial<Instance> = {}): Instance {
  return fakeInstance('D0', 'decode', { origin: 'http://10.0.0.2:8200', version: '0.29.0', transfer, ...extra });
}

export interface RequestInit {
  readonly id?: string;
  readonly api?: Api;
  readonly json?: Readonly<Record<string, unknown>>;
}

export function clientRequest({ id = 'req-1', api = 'chat', json = { model: 'm' } }: RequestInit = {}): ClientRequest {
  const body = Buffer.from(JSON.stringify(json));
  return { api, requestId: id, headers: {}, body, ...parseBody(body), isStream: json['stream'] === true };
}

export type Params = Readonly<Record<string, unknown>>;

export interface LegInit extends Partial<Omit<LegRequest, 'kind' | 'kvTransferParams'>> {
  readonly params?: Params | string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Ignore-eos and the like, as prefillBody writes them. */
const PREFILL_REWRITES = ['stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'min_tokens', 'n', 'stop', 'stop_token_ids', 'ignore_eos'].map((field) => ({ field }));

export class Lint {
  readonly linter: Linter;
  readonly p: Instance;
  readonly d: Instance;
  readonly context: LintContext;

  constructor(connector: ConnectorName, options: { readonly linter?: Linter; readonly p?: Instance; readonly d?: Instance; readonly request?: RequestInit } & LinterOptions = {}) {
    this.linter = options.linter ?? createLinter(options);
    this.p = options.p ?? prefillInstance();
    this.d = options.d ?? decodeInstance();
    this.context = { connector, request: clientRequest(options.request) };
  }

  #leg(kind: LegRequest['kind'], instance: Instance, { params, headers: _headers, ...rest }: LegInit): LegRequest {
    const text = params === undefined || typeof params === 'string' ? params : JSON.stringify(params);
    const rewrites = kind === 'prefill' ? PREFILL_REWRITES : [];
    return { kind, instance, body: Buffer.from('{}'), rewrites, ...(text !== undefined && { kvTransferParams: text }), ...rest };
  }

  sendPrefill(init: LegInit = {}): readonly Verdict[] {
    return this.linter.sending(this.context, this.#leg('prefill', this.p, init), { 'x-request-id': 'req-1', ...init.headers });
  }

  sendDecode(init: LegInit = {}): readonly Verdict[] {
    return this.linter.sending(this.context, this.#leg('decode', this.d, init), { 'x-request-id': 'req-1', ...init.headers });
  }

  prefillAnswered(params?: Params | string, facts: LegFacts = {}, leg: LegInit = {}): readonly Verdict[] {
    return this.linter.answered(this.context, this.#leg('prefill', this.p, leg), withParams(facts, params));
  }

  decodeAnswered(params?: Params | string, facts: LegFacts = {}): readonly Verdict[] {
    return this.linter.answered(this.context, this.#leg('decode', this.d, {}), withParams(facts, params));
  }
}

function withParams(facts: LegFacts, params: Params | string | undefined): LegFacts {
  if (params === undefined) return facts;
  return { ...facts, kvTransferParams: typeof params === 'string' ? params : JSON.stringify(params) };
}

export function codes(verdicts: readonly Verdict[]): string[] {
  return verdicts.map(({ code }) => code);
}

/** What a prefill leg is asked. */
export const ASK: Params = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, remote_host: null, remote_port: null };

/** What a NIXL pull prefill of 40 tokens with blocks of 16 answers. */
export const HANDOFF: Params = {
  do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [[7, 8, 9]], remote_engine_id: 'e1', remote_request_id: 'chatcmpl-req-1-0a1b2c3d',
  remote_host: '10.0.0.1', remote_port: 5600, tp_size: 1, remote_num_tokens: 40, remote_blocks_expiry_time: null, transfer_mode: 'pull',
};

export const USAGE: LegFacts = { usage: { promptTokens: 40, completionTokens: 1 } };

export function fields(params: Params, { without }: { readonly without: string }): Params {
  return Object.fromEntries(Object.entries(params).filter(([field]) => field !== without));
}
