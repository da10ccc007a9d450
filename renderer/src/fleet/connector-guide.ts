/**
 * What each P/D protocol is and how engines must be started for it. The README carries the same table. Flags are those of
 * `vllm serve`: vllm/config/kv_transfer.py, kv_connector/factory.py and the connectors' own files, as of 2026-08-20.
 */
import type { ConnectorName } from '#shared/vocabulary.ts';

export interface ConnectorGuide {
  /** What it does, in a line. */
  readonly does: string;
  /** How the two legs of a request follow each other. */
  readonly order: 'prefill, then decode' | 'prefill and decode at once' | 'at once, where prefill is known already' | 'as the engines say' | 'one leg';
  /** Engine flags by the instances that need them. Empty: nothing special. */
  readonly flags: readonly { readonly on: string; readonly flags: string }[];
  /** What else must be right, or is commonly wrong. */
  readonly mind: string;
}

const NIXL_BOTH = `--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'`;
const NIXL_HOST = 'VLLM_NIXL_SIDE_CHANNEL_HOST must be an address that the other instances reach (its default is localhost), and each instance of a machine needs its own VLLM_NIXL_SIDE_CHANNEL_PORT.';

export const CONNECTOR_GUIDE: Readonly<Record<ConnectorName, ConnectorGuide>> = {
  plain: {
    does: 'Two legs and nothing between them: prefill with one token, then decode. The pair finds its KV by itself, in a shared store.',
    order: 'prefill, then decode',
    flags: [
      { on: 'prefill', flags: `--kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_producer"}'` },
      { on: 'decode', flags: `--kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_consumer"}'` },
    ],
    mind: 'LMCache is one example; any store that needs no parameters on the wire will do. Without one, decode computes the prompt again.',
  },
  nixl: {
    does: "Decode pulls the prompt's blocks from prefill; the parameters in prefill's answer say where they are.",
    order: 'prefill, then decode',
    flags: [{ on: 'prefill and decode', flags: NIXL_BOTH }],
    mind: NIXL_HOST,
  },
  'nixl-bidirectional': {
    does: 'As nixl, and from the second turn of a conversation on prefill pulls what decode generated, instead of computing it.',
    order: 'prefill, then decode',
    flags: [{ on: 'prefill and decode', flags: `--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_connector_extra_config":{"bidirectional_kv_xfer":true}}'` }],
    mind: `Clients name the conversation: conversation_id in the body, or the header X-Conversation-Id or X-Session-Id. Engines give the parameters in answers read whole only: for streaming clients switch re-emitted streams on. ${NIXL_HOST}`,
  },
  'nixl-push': {
    does: 'Prefill pushes the blocks to decode. Both legs carry one request id, and decode is told where prefill is.',
    order: 'at once, where prefill is known already',
    flags: [{ on: 'prefill and decode', flags: `--kv-transfer-config '{"kv_connector":"NixlPushConnector","kv_role":"kv_both"}'` }],
    mind: `Push and pull instances never work together. ${NIXL_HOST}`,
  },
  mooncake: {
    does: "Prefill pushes; decode finds it by engine id and rank, which pdscope asks prefill's bootstrap server for.",
    order: 'prefill and decode at once',
    flags: [
      { on: 'prefill', flags: `VLLM_MOONCAKE_BOOTSTRAP_PORT=8998 vllm serve … --kv-transfer-config '{"kv_connector":"MooncakeConnector","kv_role":"kv_producer"}'` },
      { on: 'decode', flags: `--kv-transfer-config '{"kv_connector":"MooncakeConnector","kv_role":"kv_consumer"}'` },
    ],
    mind: 'The bootstrap port of each prefill instance must be reachable from pdscope and from decode. Roles are strict: an engine dies of a leg of the other kind.',
  },
  moriio: {
    does: 'For ROCm. Engines register with pdscope and join by themselves; their transfer mode decides whether legs are serial (READ) or at once (WRITE).',
    order: 'as the engines say',
    flags: [
      { on: 'prefill', flags: `--kv-transfer-config '{"kv_connector":"MoRIIOConnector","kv_role":"kv_producer","kv_connector_extra_config":{"proxy_ip":"PDSCOPE_IP","proxy_ping_port":"36367","http_port":"8100","handshake_port":"6301","notify_port":"61005"}}'` },
      { on: 'decode', flags: `--kv-transfer-config '{"kv_connector":"MoRIIOConnector","kv_role":"kv_consumer","kv_connector_extra_config":{"proxy_ip":"PDSCOPE_IP","proxy_ping_port":"36367","http_port":"8200","handshake_port":"6301","notify_port":"61005"}}'` },
    ],
    mind: 'For READ mode add "read_mode":true to the extra configuration of every instance; all must have the same mode.',
  },
  render: {
    does: 'As nixl, but one instance renders the chat into token ids once, and both legs run on those.',
    order: 'prefill, then decode',
    flags: [{ on: 'prefill and decode', flags: NIXL_BOTH }],
    mind: `Engines need /v1/chat/completions/render, derender and /inference/v1/generate: vLLM after 0.29 serves them with --enable-scale-out only. ${NIXL_HOST}`,
  },
  aggregated: {
    does: 'No disaggregation: one instance serves the whole request. For comparison with any of the above.',
    order: 'one leg',
    flags: [],
    mind: 'Needs instances of role both; prefill and decode instances take no part.',
  },
};

/** Engine flags of the encode stage, which goes before any connector. */
export const ENCODE_STAGE_FLAGS: ConnectorGuide['flags'] = [
  { on: 'encode', flags: `--ec-transfer-config '{"ec_connector":"ECExampleConnector","ec_role":"ec_producer","ec_connector_extra_config":{"shared_storage_path":"/SHARED"}}'` },
  { on: 'prefill (or decode, without prefill)', flags: `--ec-transfer-config '{"ec_connector":"ECExampleConnector","ec_role":"ec_consumer","ec_connector_extra_config":{"shared_storage_path":"/SHARED"}}'` },
];
