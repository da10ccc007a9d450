/**
 * The field's words, as types. Every other module of the contract builds on these; a name that is not here
 * should not appear in a view.
 */
import { z } from 'zod';

export const ROLES = ['encode', 'prefill', 'decode', 'both'] as const;
export const RoleSchema = z.enum(ROLES);
/** What an instance may serve. `both` takes prefill and decode legs. */
export type Role = z.infer<typeof RoleSchema>;

export const LEG_KINDS = ['encode', 'render', 'prefill', 'decode', 'forward'] as const;
export const LegKindSchema = z.enum(LEG_KINDS);
/**
 * One upstream call of a request. `render`: text to tokens, or tokens back to text, without generating. `forward`: the
 * whole request, unchanged, to one instance (routes without P/D).
 */
export type LegKind = z.infer<typeof LegKindSchema>;

export const CONNECTORS = ['plain', 'nixl', 'nixl-bidirectional', 'nixl-push', 'mooncake', 'moriio', 'render', 'aggregated'] as const;
export const ConnectorNameSchema = z.enum(CONNECTORS);
/** The P/D protocol in use. `render`: NIXL pull driven with token ids. `aggregated`: no disaggregation, for comparison. */
export type ConnectorName = z.infer<typeof ConnectorNameSchema>;

export const POLICIES = ['round-robin', 'random', 'least-in-flight', 'power-of-two', 'prefix-aware'] as const;
export const PolicyNameSchema = z.enum(POLICIES);
/** How an instance of a role is chosen for a leg. `prefix-aware`: by what it holds of the prompt, as its KV events tell. */
export type PolicyName = z.infer<typeof PolicyNameSchema>;

export const APIS = ['chat', 'completions', 'generate'] as const;
export const ApiSchema = z.enum(APIS);
/** Which inference route a request came in on. These are served by the connector in force. */
export type Api = z.infer<typeof ApiSchema>;

export const API_PATHS: Readonly<Record<Api, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  generate: '/inference/v1/generate',
};

export const RECORDED_APIS = [...APIS, 'forward'] as const;
/** As requests are listed; `forward` is any route that goes to one instance as it is. */
export type RecordedApi = (typeof RECORDED_APIS)[number];

/** Phases of a request, in the order they can occur. One hue each, everywhere. */
export const PHASES = [
  'proxy',
  'encode',
  'render',
  'prefill-queue',
  'prefill-compute',
  'prefill',
  'handoff',
  'decode-queue',
  'kv-wait',
  'first-step',
  'unattributed',
  'decode',
] as const;
export type Phase = (typeof PHASES)[number];

/** Events of vLLM's KV-cache stream, plus what pdscope itself notices about a stream. */
export const KV_ROW_KINDS = ['stored', 'removed', 'cleared', 'unknown', 'gap', 'filled', 'lost', 'restart', 'error'] as const;
export type KvRowKind = (typeof KV_ROW_KINDS)[number];
