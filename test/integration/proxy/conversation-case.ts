/** A proxy with nixl-bidirectional in force over scripted upstreams, and the words of a conversation. */
import type { ProtocolOptions } from '#shared/protocol.ts';
import { NO_LINTER, type Linter } from '#engine/proxy/lint/linter.ts';
import { post, startHarness, until, type Harness } from './harness.ts';
import { json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

export const PREFILL_PARAMS = '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2]],"remote_engine_id":"p","remote_request_id":"r","remote_host":"10.0.0.1","remote_port":5600,"big":12345678901234567890}';
export const prefillOk = (usage: object = { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 90 } }): Script =>
  json(`{"id":"x","choices":[{"index":0,"finish_reason":"length"}],"usage":${JSON.stringify(usage)},"kv_transfer_params":${PREFILL_PARAMS}}`);

/** Params of the decode instance, numbered so that turns can be told apart. */
export const heldParams = (turn: number, extra = ''): string =>
  `{"do_remote_prefill":false,"do_remote_decode":true,"remote_block_ids":[[${turn},9007199254740993]],"remote_engine_id":"d_dp0","remote_request_id":"t${turn}","remote_host":"10.0.0.2","remote_port":5600,"tp_size":1,"remote_num_tokens":50,"remote_blocks_expiry_time":123.50${extra}}`;

export const chatAnswer = (turn: number, text: string, { message = '', choice = '' } = {}): string =>
  `{"id":"chatcmpl-${turn}","object":"chat.completion","created":${turn},"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":${JSON.stringify(text)},"tool_calls":[]${message}},"logprobs":null,"finish_reason":"stop","stop_reason":null${choice}}],"usage":{"prompt_tokens":50,"total_tokens":53,"completion_tokens":3},"kv_transfer_params":${heldParams(turn)}}`;

export interface Case extends AsyncDisposable {
  readonly harness: Harness;
  readonly prefill: ScriptedUpstream;
  readonly decodes: readonly ScriptedUpstream[];
  /** Sends a chat turn; the answer's text. */
  chat(body: object, headers?: Record<string, string>): Promise<string>;
  /** kv_transfer_params as the n-th prefill leg carried them, raw. */
  sentToPrefill(index: number): string;
}

interface CaseOptions {
  readonly prefill?: Script;
  readonly decode?: Script;
  readonly decodes?: number;
  readonly protocol?: Partial<ProtocolOptions>;
  readonly linter?: Linter;
}

export async function startCase({ prefill = prefillOk(), decode, decodes: count = 1, protocol = {}, linter = NO_LINTER }: CaseOptions = {}): Promise<Case> {
  const p = await startUpstream(prefill);
  let turn = 0;
  const answer: Script = (res, request, index) => json(chatAnswer(++turn, `answer ${turn}`))(res, request, index);
  const decodes = await Promise.all(Array.from({ length: count }, () => startUpstream(decode ?? answer)));
  const harness = await startHarness({ prefill: [p.origin], decode: decodes.map(({ origin }) => origin), connector: 'nixl-bidirectional', protocol, linter });
  return {
    harness,
    prefill: p,
    decodes,
    async chat(body, headers) {
      const response = await post(`${harness.origin}/v1/chat/completions`, { model: 'm', ...body }, headers);
      const text = await response.text();
      // What is kept of a turn is known after its last byte.
      await until(() => harness.tracer.last.state);
      return text;
    },
    sentToPrefill: (index) => String(harness.tracer.requests.flatMap(({ legs }) => legs).filter(({ init }) => init.kind === 'prefill')[index]?.init.kvTransferParams),
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([p, ...decodes].map((upstream) => upstream.close()));
    },
  };
}

export const user = (content: string) => ({ role: 'user', content });
export const assistant = (content: unknown, extra: object = {}) => ({ role: 'assistant', content, ...extra });
export const codes = ({ harness }: Case): string[] => harness.tracer.last.verdicts.map(({ code }) => code);
export const fact = ({ harness }: Case, title: string): unknown => harness.proxy.connectorStatus().facts.find((one) => one.title === title)?.value;
export const NULLS = '"remote_block_ids":null';
