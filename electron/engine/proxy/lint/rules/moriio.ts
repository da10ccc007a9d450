/**
 * MoRIIO (MoRIIOConnector): peers find each other by the request id, which carries both zmq addresses, or by
 * remote_host and ports in the parameters; since 2026-08-04 (f427612) the request id wins.
 * vllm/distributed/kv_transfer/kv_connector/v1/moriio/moriio_common.py and moriio_connector.py.
 */
import { cut } from '../../../cut-text.ts';
import { checks, type Contract, type Subject } from '../rule.ts';
import { DECODED, decodeNotTold, EVERY_LEG, kvConnectorIs, kvRole, PAIR, PREFILL_BODY, prefillNotTold } from './common.ts';
import { mayEndByStop, transferIdsDiffer, transferReused } from './mooncake.ts';

const ADDRESSES = /___prefill_addr_(.+?)___decode_addr_(.+?)_[0-9a-f]{32}/;
const HOST = /(?:^|,)host:([^,]+)/;
const HANDSHAKE = /(?:^|,)handshake:(\d+)/;

/** The peer's address out of the request id: prefill's for a decode leg, decode's for a prefill leg. */
function peerAddress({ leg, headers }: Subject): string | undefined {
  const found = ADDRESSES.exec(headers?.['x-request-id'] ?? '');
  return leg.kind === 'decode' ? found?.[1] : found?.[2];
}

const noPeer = checks(
  {
    code: 'peer_unknown',
    severity: 'error',
    title: 'The engine cannot tell who its peer is',
    nextStep: 'Send a request id with both zmq addresses, or remote_host, remote_handshake_port and remote_notify_port: the engine raises otherwise.',
    effect: 'kills',
  },
  (subject) => {
    const { params, leg } = subject;
    if (params === undefined || !params.isWhole || peerAddress(subject) !== undefined) return undefined;
    if (!params.isTrue('do_remote_decode') && !params.isTrue('do_remote_prefill')) return undefined;
    if (params.has('remote_host') && params.has('remote_handshake_port') && params.has('remote_notify_port')) return undefined;
    return `The leg on ${leg.instance.name} has neither addresses in its request id nor remote_host with both ports.`;
  },
);

const contradiction = checks(
  {
    code: 'peer_contradiction',
    severity: 'error',
    title: 'Request id and parameters name different peers',
    nextStep: 'Send the same addresses in both, or only the request id: which one counts depends on the vLLM version.',
  },
  (subject) => {
    const { params } = subject;
    const address = peerAddress(subject);
    if (address === undefined || params === undefined) return undefined;
    const host = HOST.exec(address)?.[1];
    const told = params.string('remote_host');
    if (host !== undefined && told !== undefined && host !== told) return `The request id says ${cut(host, 80)}, remote_host ${cut(told, 80)}.`;
    const port = HANDSHAKE.exec(address)?.[1];
    const toldPort = params.number('remote_handshake_port');
    if (port === undefined || toldPort === undefined || Number(port) === toldPort) return undefined;
    return `The request id says handshake port ${port}, remote_handshake_port ${toldPort}.`;
  },
);

const UNIQUE_END = /_[0-9a-f]{32}$/;

function hasSameEnd(one: string | undefined, other: string | undefined): boolean {
  const end = one === undefined ? undefined : UNIQUE_END.exec(one)?.[0];
  return end !== undefined && other?.endsWith(end) === true;
}

const idsDiffer = checks(
  {
    code: 'request_id_differs',
    severity: 'error',
    title: 'Prefill and decode got different request ids',
    nextStep: 'Send the same X-Request-Id on both legs: it names both peers.',
  },
  ({ memory: { prefill, decode } }) => {
    if (prefill === undefined || decode === undefined || prefill.requestId === decode.requestId) return undefined;
    // The same id with a corrected address of prefill is the connector's doing.
    if (hasSameEnd(prefill.requestId, decode.requestId)) return undefined;
    return `X-Request-Id was ${cut(prefill.requestId ?? 'missing', 80)} for prefill and ${cut(decode.requestId ?? 'missing', 80)} for decode.`;
  },
);

const noTransferId = checks(
  {
    code: 'transfer_id_missing',
    severity: 'warning',
    title: 'No transfer id',
    nextStep: 'Send one transfer_id on both legs: the engine makes one up from its own request id, and older ones fail (required since 2026-03-16).',
  },
  ({ params, leg }) => {
    if (params === undefined || !params.isWhole || params.has('transfer_id')) return undefined;
    return `The parameters for ${leg.instance.name} lack transfer_id.`;
  },
);

const rankTold = checks(
  {
    code: 'remote_dp_rank_wrong',
    severity: 'error',
    title: 'Decode is told a rank of prefill that does not fit',
    nextStep: "Send remote_dp_rank as X-data-parallel-rank of the prefill leg; it must be below prefill's number of ranks.",
  },
  ({ params, memory: { prefill } }) => {
    const told = params?.number('remote_dp_rank');
    if (told === undefined) return undefined;
    const size = params?.number('remote_dp_size') ?? prefill?.instance.dpSize;
    if (size !== undefined && (told < 0 || told >= size)) return `remote_dp_rank is ${told} of ${size} ranks, counted from 0.`;
    if (prefill?.rank === undefined || prefill.rank === told) return undefined;
    return `remote_dp_rank is ${told}; prefill ran on rank ${prefill.rank} of ${prefill.instance.name}.`;
  },
);

const rankMissing = checks(
  {
    code: 'remote_dp_rank_missing',
    severity: 'warning',
    title: 'Decode is not told the rank of prefill',
    nextStep: 'Send remote_dp_rank: the engine takes rank 0 otherwise, and waits for blocks of another.',
  },
  ({ params, memory: { prefill } }) => {
    if (params === undefined || !params.isWhole || prefill === undefined || prefill.instance.dpSize < 2 || params.has('remote_dp_rank')) return undefined;
    return `${prefill.instance.name} has ${prefill.instance.dpSize} ranks and prefill ran on ${prefill.rank ?? 'one of them'}.`;
  },
);

/** kv_connector_extra_config.read_mode; the VLLM_MORIIO_* variables are ignored since 2026-05-26 (681d7dd). */
const modesDiffer = checks(
  {
    code: 'transfer_mode_mismatch',
    severity: 'error',
    title: 'READ and WRITE mode are mixed',
    nextStep: 'Start all instances with the same read_mode in kv_connector_extra_config.',
  },
  ({ leg, params, memory: { prefill } }) => {
    if (params === undefined) return undefined;
    const own = leg.instance.transfer;
    const giver = prefill?.instance.transfer;
    if (own?.extraConfig === undefined || giver?.extraConfig === undefined) return undefined;
    const [given, taken] = [giver.extraConfig['read_mode'] === true, own.extraConfig['read_mode'] === true];
    if (given === taken) return undefined;
    return `${prefill?.instance.name ?? 'Prefill'} runs in ${given ? 'READ' : 'WRITE'} mode, ${leg.instance.name} in ${taken ? 'READ' : 'WRITE'} mode.`;
  },
);

const readWithoutBlocks = checks(
  {
    code: 'read_without_blocks',
    severity: 'error',
    title: 'READ mode without block ids',
    nextStep: 'In READ mode wait for the prefill answer and send its remote_block_ids and remote_engine_id to decode.',
  },
  ({ leg, params }) => {
    if (params === undefined || !params.isWhole || leg.instance.transfer?.extraConfig?.['read_mode'] !== true) return undefined;
    if (!params.isTrue('do_remote_prefill') || (params.has('remote_block_ids') && params.has('remote_engine_id'))) return undefined;
    return `${leg.instance.name} reads blocks itself, and gets ${params.has('remote_block_ids') ? 'no remote_engine_id' : 'no remote_block_ids'}.`;
  },
);

const ENGINE = ['MoRIIOConnector'];

export const MORIIO: Contract = {
  'proxy->prefill': [
    ...EVERY_LEG, kvConnectorIs(ENGINE), ...PREFILL_BODY, prefillNotTold, kvRole(false), noPeer, contradiction, noTransferId, mayEndByStop, idsDiffer, transferIdsDiffer(),
  ],
  'proxy->decode': [
    ...EVERY_LEG, kvConnectorIs(ENGINE), decodeNotTold, kvRole(false), noPeer, contradiction, noTransferId, rankTold, rankMissing, modesDiffer, readWithoutBlocks, idsDiffer,
    transferIdsDiffer(), transferReused, ...PAIR,
  ],
  'decode->proxy': DECODED,
};
