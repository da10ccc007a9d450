import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { errorIn, factsOfBody, factsOfStream, findErrorEvent, isErrorBody } from '#engine/proxy/answer-facts.ts';
import { ByteTail } from '#engine/proxy/byte-tail.ts';

interface Sample {
  readonly name: string;
  readonly body_text: string;
}
const samples = JSON.parse(readFileSync(new URL('../../fixtures/golden/http-samples.json', import.meta.url), 'utf8')) as Sample[];

function sample(name: string): Buffer {
  const found = samples.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no sample ${name}`);
  return Buffer.from(found.body_text);
}

test('golden streams: usage, finish reason, error', () => {
  expect(factsOfStream(sample('chat-stream'))).toEqual({ facts: { finishReason: 'stop' } });
  expect(factsOfStream(sample('chat-stream-include-usage'))).toEqual({
    facts: { finishReason: 'stop', usage: { promptTokens: 11, completionTokens: 3, cachedTokens: 0 } },
  });
  expect(factsOfStream(sample('chat-stream-error-mid-stream')).error).toMatchObject({ code: 500 });
  expect(findErrorEvent(sample('chat-stream-error-mid-stream'))).toMatchObject({ code: 500 });
  expect(findErrorEvent(sample('chat-stream'))).toBeUndefined();
});

test('a stream cut off at its start still tells its end', () => {
  const whole = sample('chat-stream-include-usage');
  expect(factsOfStream(whole.subarray(whole.length - 450)).facts.usage).toEqual({ promptTokens: 11, completionTokens: 3, cachedTokens: 0 });
});

test('a body tells usage, metrics, finish reason and params; what is absent stays absent', () => {
  const body = '{"choices":[{"message":{"content":"\\"usage\\":{}"},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":null},"metrics":{"queue_time_ms":1.5},"kv_transfer_params":{"room":9223372036854775807}}';
  expect(factsOfBody(Buffer.from(body))).toEqual({
    finishReason: 'tool_calls',
    usage: { promptTokens: 7, completionTokens: 2 },
    metrics: { queue_time_ms: 1.5 },
    kvTransferParams: '{"room":9223372036854775807}',
  });
  expect(factsOfBody(Buffer.from('{"choices":[],"usage":null}'))).toEqual({});
});

test.each([
  ['{"error":{"message":"x"}}', true],
  [' { "error" : "x"}', true],
  ['{"object":"error","message":"old"}', true],
  ['{"object":"chat.completion","error":1}', false],
  ['{"errors":[]}', false],
])('%s is an error body: %s', (text, isError) => {
  expect(isErrorBody(Buffer.from(text))).toBe(isError);
});

test('the error of a body is its error field, else the whole', () => {
  expect(errorIn(Buffer.from('{"error":{"message":"x"}}'))).toEqual({ message: 'x' });
  expect(errorIn(Buffer.from('{"object":"error","message":"old"}'))).toEqual({ object: 'error', message: 'old' });
  expect(errorIn(Buffer.from('{"error"'))).toBe('{"error"');
});

test('ByteTail keeps at least its capacity and says what it left out', () => {
  const tail = new ByteTail(10);
  tail.push(Buffer.from('abcdef'));
  tail.push(Buffer.from('ghij'));
  expect([tail.read().toString(), tail.isWhole, tail.totalBytes]).toEqual(['abcdefghij', true, 10]);
  tail.push(Buffer.from('k'));
  expect([tail.read().toString(), tail.isWhole]).toEqual(['abcdefghijk', true]);
  tail.push(Buffer.from('lmnop'));
  expect([tail.read().toString(), tail.isWhole, tail.totalBytes]).toEqual(['ghijklmnop', false, 16]);
});

test('/v1/responses and /v1/messages: input and output tokens, whole, streamed, and with the last event cut', () => {
  const usage = { promptTokens: 11, completionTokens: 3, cachedTokens: 8 };
  const text = '"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":8},"output_tokens":3,"total_tokens":14}';
  expect(factsOfBody(Buffer.from(`{"id":"resp_1",${text},"user":null}`)).usage).toEqual(usage);
  const last = `event: response.completed\ndata: {"type":"response.completed","response":{"output":[{"text":"\\"usage\\":{}"}],${text}}}\n\n`;
  expect(factsOfStream(Buffer.from(`event: response.created\ndata: {"type":"response.created","response":{"usage":null}}\n\n${last}`)).facts.usage).toEqual(usage);
  expect(factsOfStream(Buffer.from(last).subarray(70)).facts.usage).toEqual(usage);
  const messages = 'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":11,"output_tokens":3}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n';
  expect(factsOfStream(Buffer.from(messages)).facts).toEqual({ usage: { promptTokens: 11, completionTokens: 3 }, finishReason: 'end_turn' });
});

test('/v1/messages: where cached tokens are told, input tokens are the others', () => {
  const text = '"usage":{"input_tokens":3,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":8}';
  const facts = { usage: { promptTokens: 11, completionTokens: 5, cachedTokens: 8 }, finishReason: 'max_tokens' };
  expect(factsOfBody(Buffer.from(`{"id":"m","type":"message","content":[],"stop_reason":"max_tokens",${text}}`))).toEqual(facts);
  const start = 'event: message_start\ndata: {"type":"message_start","message":{"stop_reason":null,"usage":{"input_tokens":11,"output_tokens":0}}}\n\n';
  const end = `event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},${text}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`;
  expect(factsOfStream(Buffer.from(start + end)).facts).toEqual(facts);
});

test('prompt tokens are all of the prompt, whatever a gateway tells of the cache beside them', () => {
  const usage = '"usage":{"prompt_tokens":11,"completion_tokens":3,"cache_creation_input_tokens":2,"cache_read_input_tokens":8}';
  expect(factsOfBody(Buffer.from(`{"choices":[],${usage}}`)).usage).toEqual({ promptTokens: 11, completionTokens: 3, cachedTokens: 8 });
});

test('a stop string of a chat answer is no finish reason', () => {
  expect(factsOfBody(Buffer.from('{"choices":[{"stop_reason":"END"}],"usage":{"prompt_tokens":1}}'))).toEqual({ usage: { promptTokens: 1 } });
});
