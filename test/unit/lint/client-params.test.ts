import { describe, expect, it } from 'vitest';
import { ASK, codes, decodeInstance, HANDOFF, Lint } from './support.ts';

const DANGEROUS = { do_remote_prefill: true };
const request = { json: { model: 'm', kv_transfer_params: DANGEROUS } };

describe("a client's own kv_transfer_params", () => {
  it('are said to be replaced, once per request', () => {
    const lint = new Lint('nixl', { request });
    expect(lint.sendPrefill({ params: ASK })).toMatchObject([
      { code: 'client_params_replaced', severity: 'info', hop: 'client->proxy', message: 'The leg on P0 carries the protocol\'s; the client sent {"do_remote_prefill":true}.' },
    ]);
    expect(lint.sendDecode({ params: HANDOFF })).toEqual([]);
  });

  it('are said to be passed on, and judged by the contract in force', () => {
    const lint = new Lint('nixl', { request });
    const verdicts = lint.sendDecode({ body: lint.context.request.body });
    expect(verdicts).toMatchObject([
      { code: 'client_params_passed_on', severity: 'warning', hop: 'client->proxy', instance: 'd0' },
      { code: 'pull_without_blocks', effect: 'kills', hop: 'proxy->decode' },
    ]);
  });

  it('cannot end an engine under a protocol without parameters, when the engine said what it is', () => {
    const nixl = new Lint('plain', { request, d: decodeInstance({ kvConnector: 'NixlConnector' }) });
    const verdicts = nixl.sendDecode({ body: nixl.context.request.body });
    expect(verdicts.filter(({ effect }) => effect !== undefined)).toMatchObject([{ code: 'pull_without_blocks', effect: 'kills' }]);
    const unknown = new Lint('plain', { request });
    expect(codes(unknown.sendDecode({ body: unknown.context.request.body }))).toEqual(['client_params_passed_on']);
  });

  it('are judged once where the engine and the protocol have the same rules', () => {
    const lint = new Lint('nixl-bidirectional', { request, d: decodeInstance({ kvConnector: 'NixlConnector' }) });
    expect(codes(lint.sendDecode({ body: lint.context.request.body })).filter((code) => code === 'pull_without_blocks')).toEqual(['pull_without_blocks']);
  });

  it('are found in an edited body, and not where the edit took them out', () => {
    const kept = new Lint('plain', { request });
    expect(codes(kept.sendPrefill({ body: Buffer.from('{"max_tokens":1,"kv_transfer_params":{"a":1}}') }))).toEqual(['client_params_passed_on']);
    const taken = new Lint('plain', { request });
    expect(taken.sendPrefill({ body: Buffer.from('{"max_tokens":1}') })).toEqual([]);
    expect(taken.sendPrefill({ body: Buffer.from('{"kv_transfer_params":null}') })).toEqual([]);
  });

  it('count on the token route where the engine reads them', () => {
    const nested = { api: 'generate' as const, json: { token_ids: [1], sampling_params: { extra_args: { kv_transfer_params: DANGEROUS } } } };
    const lint = new Lint('nixl', { request: nested });
    expect(codes(lint.sendDecode({ body: lint.context.request.body }))).toEqual(['client_params_passed_on', 'pull_without_blocks']);
    const ignored = new Lint('nixl', { request: { api: 'generate', json: { token_ids: [1], kv_transfer_params: DANGEROUS } } });
    expect(ignored.sendDecode({ body: ignored.context.request.body })).toEqual([]);
  });

  it('are no matter when null or absent', () => {
    for (const json of [{ model: 'm' }, { model: 'm', kv_transfer_params: null }]) {
      const lint = new Lint('nixl', { request: { json } });
      expect(lint.sendDecode({ body: lint.context.request.body })).toEqual([]);
    }
  });

  it('are reported for forwarded requests, too', () => {
    const lint = new Lint('plain', { request });
    const { body } = lint.context.request;
    const verdicts = lint.linter.sending(lint.context, { kind: 'forward', instance: lint.d, body, rewrites: [] }, {});
    expect(codes(verdicts)).toEqual(['client_params_passed_on']);
  });
});
