/**
 * kv_transfer_params of the legs, as JSON text
 * (vllm/distributed/kv_transfer/kv_connector/v1/moriio/moriio_common.py, `add_new_req`).
 *
 * Engines of v2 (since 2026-04-23) find their peer in the request id; those before take it from the parameters. Each
 * gets what its generation reads, and only that, so that the two sources cannot contradict each other. Missing keys are
 * KeyErrors in the engine core (`transfer_id`, `remote_engine_id`, `remote_block_ids`), which end it: nulls are sent.
 */
import { randomUUID } from 'node:crypto';
import { editMembers, memberValue, scanMembers, type JsonMember } from '../../json-members.ts';
import type { MoriioRegistration } from './message.ts';

/** Unique per try; both legs carry the same. */
export function newTransferId(): string {
  return `tx-${randomUUID()}`;
}

/** The last part of a pair's request id: 32 hexadecimal digits. */
export function newIdEnd(): string {
  return randomUUID().replaceAll('-', '');
}

/** X-Request-Id of both legs: P reads the decode part, D the prefill part, each between the marks. */
export function pairRequestId(prefillZmqAddress: string, decodeZmqAddress: string, end: string): string {
  return `___prefill_addr_${prefillZmqAddress}___decode_addr_${decodeZmqAddress}_${end}`;
}

/** The prefill leg, in both modes. @param prefill the reader, @param decode its peer. */
export function prefillParams(prefill: MoriioRegistration, decode: MoriioRegistration, transferId: string): string {
  return JSON.stringify({
    do_remote_decode: true,
    do_remote_prefill: false,
    remote_engine_id: null,
    remote_block_ids: null,
    transfer_id: transferId,
    remote_dp_size: decode.dpSize,
    remote_tp_size: decode.tpSize,
    ...(prefill.schema !== 'v2' && peerFields(decode)),
  });
}

/** The decode leg in WRITE mode, sent before prefill has answered. @param prefillRank the rank that computes. */
export function writeDecodeParams(prefill: MoriioRegistration, decode: MoriioRegistration, link: { readonly transferId: string; readonly prefillRank: number }): string {
  return JSON.stringify({
    do_remote_prefill: true,
    do_remote_decode: false,
    transfer_id: link.transferId,
    remote_engine_id: null,
    remote_block_ids: null,
    remote_dp_size: prefill.dpSize,
    remote_tp_size: prefill.tpSize,
    remote_dp_rank: link.prefillRank,
    ...(decode.schema !== 'v2' && peerFields(prefill)),
  });
}

/** Where the peer is, for engines before v2. `remote_port` is its HTTP port, as in the toy proxy of those days. */
function peerFields({ host, httpPort, handshakePort, notifyPort }: MoriioRegistration): Readonly<Record<string, string | number>> {
  return { remote_host: host, remote_port: httpPort, remote_handshake_port: handshakePort, remote_notify_port: notifyPort };
}

/** What prefill answered in READ mode: the raw object and where its members are. */
export interface AnsweredParams {
  readonly raw: Buffer;
  readonly members: readonly JsonMember[];
}

/**
 * Reads the answer's parameters, or says why they hand nothing over. A decode instance in READ mode takes the prompt for
 * loaded whatever they say, and without blocks it would answer from memory that nobody filled.
 */
export function readAnswered(raw: Buffer | undefined): AnsweredParams | string {
  if (raw === undefined) return 'its kv_transfer_params are missing';
  const members = scanMembers(raw);
  if (members === undefined) return `its kv_transfer_params are ${raw.toString('utf8', 0, 100)}`;
  const answered = { raw, members };
  if (!has(answered, 'remote_engine_id')) return 'its kv_transfer_params name no remote_engine_id';
  const blocks = memberValue(raw, members, 'remote_block_ids');
  if (blocks === undefined || !/^\[\s*[^\]\s]/.test(blocks.toString('latin1', 0, 64))) return 'its kv_transfer_params list no remote_block_ids';
  return answered;
}

/**
 * The decode leg in READ mode: what prefill answered, byte for byte, and the fields that its generation leaves out. What
 * it says itself wins: it holds the blocks.
 */
export function readDecodeParams(
  answered: AnsweredParams,
  peers: { readonly prefill: MoriioRegistration; readonly decode: MoriioRegistration },
  link: { readonly transferId: string; readonly prefillRank: number },
): Buffer {
  const { prefill, decode } = peers;
  const wanted: Readonly<Record<string, unknown>> = {
    do_remote_prefill: true,
    do_remote_decode: false,
    transfer_id: link.transferId,
    remote_dp_size: prefill.dpSize,
    remote_tp_size: prefill.tpSize,
    remote_dp_rank: link.prefillRank,
    ...(decode.schema !== 'v2' && peerFields(prefill)),
  };
  const edits = new Map<string, string>();
  for (const field in wanted) if (!has(answered, field)) edits.set(field, JSON.stringify(wanted[field]));
  return edits.size === 0 ? answered.raw : editMembers(answered.raw, answered.members, edits);
}

/** The transfer address that prefill's answer names, in the form of registrations, when it names all of it. */
export function answeredZmqAddress({ raw, members }: AnsweredParams): string | undefined {
  const parts = ['remote_host', 'remote_handshake_port', 'remote_notify_port'].map((field) => scalar(memberValue(raw, members, field)));
  const [host, handshake, notify] = parts;
  if (host === undefined || handshake === undefined || notify === undefined) return undefined;
  return `host:${host},handshake:${handshake},notify:${notify}`;
}

function has({ raw, members }: AnsweredParams, field: string): boolean {
  const value = memberValue(raw, members, field);
  return value !== undefined && !(value.length === 4 && value.toString('latin1') === 'null');
}

/** A short text or number without anything that could not travel in a header. */
function scalar(value: Buffer | undefined): string | undefined {
  const text = value?.toString('latin1');
  const found = text === undefined ? undefined : /^(?:"([\x21\x23-\x5b\x5d-\x7e]{1,100})"|(\d{1,9}))$/.exec(text);
  return found?.[1] ?? found?.[2];
}
