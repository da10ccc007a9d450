import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { CONNECTORS, LEG_KINDS } from '#shared/vocabulary.ts';
import { clientRequest, decodeInstance, HANDOFF, prefillInstance } from './support.ts';

const anyScalar = fc.oneof(fc.constantFrom(null, true, false, '', 'e1', 'localhost', 0, -1, 5600, 1e300), fc.string(), fc.double(), fc.jsonValue());
const anyParams = fc.record(
  Object.fromEntries([...Object.keys(HANDOFF), 'transfer_id', 'remote_bootstrap_addr', 'pp_size', 'remote_dp_rank', 'remote_dp_size', 'remote_handshake_port'].map((field) => [field, anyScalar])),
  { requiredKeys: [] },
);
const anyText = fc.oneof(anyParams.map((params) => JSON.stringify(params)), fc.json(), fc.string(), fc.constant('null'), fc.constant(undefined));
const anyFacts = fc.record(
  {
    kvConnector: fc.constantFrom('NixlConnector', 'NixlPushConnector', 'MooncakeConnector', 'MoRIIOConnector', 'MultiConnector', 'x'),
    kvRole: fc.constantFrom('kv_producer', 'kv_consumer', 'kv_both', 'x'),
    engineId: fc.constantFrom('e1', 'e2'), tpSize: fc.integer(), ppSize: fc.integer(), blockSize: fc.integer(),
    extraConfig: fc.dictionary(fc.constantFrom('read_mode', 'kv_lease_duration', 'bidirectional_kv_xfer'), fc.jsonValue()),
  },
  { requiredKeys: [] },
);

describe('whatever engines and clients send', () => {
  it('never makes the linter throw, and its verdicts are complete', () => {
    const hop = fc.record({
      kind: fc.constantFrom(...LEG_KINDS), isAnswer: fc.boolean(), text: anyText, rank: fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined }),
      body: anyText, headers: fc.dictionary(fc.constantFrom('x-request-id', 'x-data-parallel-rank'), fc.string()), isParsed: fc.boolean(),
      promptTokens: fc.option(fc.integer(), { nil: undefined }), path: fc.option(fc.string(), { nil: undefined }),
    });
    const request = fc.record({ json: fc.dictionary(fc.constantFrom('kv_transfer_params', 'sampling_params', 'n', 'min_tokens', 'stop', 'stream'), fc.jsonValue()), api: fc.constantFrom('chat' as const, 'completions' as const, 'generate' as const) });
    const linter = createLinter({ references: 8 });
    fc.assert(
      fc.property(fc.constantFrom(...CONNECTORS), request, fc.array(hop, { maxLength: 6 }), anyFacts, anyFacts, (connector, init, hops, p, d) => {
        const context = { connector, request: clientRequest(init) };
        const instances = { prefill: prefillInstance(p), decode: decodeInstance(d) };
        for (const { kind, isAnswer, text, rank, body, headers, isParsed, promptTokens, path } of hops) {
          const kvTransferParams: unknown = isParsed && text !== undefined ? { text } : text;
          const leg = {
            kind, instance: instances[kind === 'prefill' ? 'prefill' : 'decode'], body: body === undefined ? context.request.body : Buffer.from(body), rewrites: [],
            ...(kvTransferParams !== undefined && { kvTransferParams }), ...(rank !== undefined && { rank }), ...(path !== undefined && { path }),
          };
          const facts = { ...(text !== undefined && { kvTransferParams: text }), ...(promptTokens !== undefined && { usage: { promptTokens } }) };
          for (const verdict of isAnswer ? linter.answered(context, leg, facts) : linter.sending(context, leg, headers)) {
            expect(verdict.code).toMatch(/^[a-z][a-z0-9_]*$/);
            for (const text of [verdict.title, verdict.message, verdict.nextStep]) expect(text.length).toBeGreaterThan(5);
            expect(verdict.message.length).toBeLessThan(1000);
            expect(verdict.title).not.toMatch(/P0|D0/);
          }
        }
      }),
      { numRuns: 400 },
    );
  });
});
