import { expect, test } from 'vitest';
import { parseBody, type ClientRequest } from '#engine/proxy/client-request.ts';
import { encodeBodies, findMedia } from '#engine/proxy/encode-stage.ts';

function requestOf(text: string): ClientRequest {
  const body = Buffer.from(text);
  const { json, members } = parseBody(body);
  return { api: 'chat', requestId: 'r', headers: {}, body, json, members, isStream: json['stream'] === true };
}

function bodiesOf(text: string): readonly string[] {
  const request = requestOf(text);
  return encodeBodies(request, findMedia(request.json['messages'])).map((body) => body.toString());
}

test.each([
  ['image_url', '{"type":"image_url","image_url":{"url":"file:///data/a%20b.png","detail":"low"}}'],
  ['input_image', '{"type":"input_image","image_url":"https://h/i.png"}'],
  ['audio_url', '{"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,AAAA"}}'],
  ['input_audio', '{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}'],
  ['video_url', '{"video_url":{"url":"https://h/v.mp4"},"type":"video_url","uuid":"u1"}'],
  ['a part without type', '{"image_url":"https://h/i.png"}'],
])('%s is encoded as the very bytes the client sent', (_name, part) => {
  expect(bodiesOf(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"see ]}"}, ${part} ]}],"stream":true}`)).toEqual([
    `{"model":"m","messages":[{"role":"user","content":[${part}]}],"stream":false,"max_tokens":1}`,
  ]);
});

test.each([
  ['text only', '[{"role":"user","content":[{"type":"text","text":"image_url"}]}]'],
  ['plain strings', '[{"role":"system","content":"s"},{"role":"user","content":"image_url"}]'],
  ['embeddings, which are encoded already', '[{"role":"user","content":[{"type":"image_embeds","image_embeds":"AAAA"}]}]'],
  ['a reference to media the engine has', '[{"role":"user","content":[{"type":"image_url","image_url":null,"uuid":"u"}]}]'],
  ['strange messages', '[null,1,"x",{"role":"user"},{"role":"user","content":[null,3,"image_url",["image_url"]]}]'],
  ['no list', '{"content":[{"type":"image_url","image_url":{"url":"x"}}]}'],
])('%s: nothing to encode', (_name, messages) => {
  expect(findMedia(JSON.parse(messages))).toEqual([]);
});

test('every part of every message, in their order, with its role, and what shapes the media', () => {
  const text =
    '{"messages":[{"content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"a"}}],"role":"system"},' +
    '{"role":"user","content":"none"},{"content":[{"type":"input_audio","input_audio":{"data":"b"}}]}],' +
    '"mm_processor_kwargs":{ "num_crops": 4.0 },"model":"vl","media_io_kwargs":{"video":{"num_frames":12345678901234567890}},"temperature":1,"max_tokens":5,"priority":-1}';
  const head = '{"model":"vl","mm_processor_kwargs":{ "num_crops": 4.0 },"media_io_kwargs":{"video":{"num_frames":12345678901234567890}},"priority":-1,"messages":[{"role":';
  const tail = ']}],"stream":false,"max_tokens":1}';
  expect(bodiesOf(text)).toEqual([
    `${head}"system","content":[{"type":"image_url","image_url":{"url":"a"}}${tail}`,
    `${head}"system","content":[{"type":"image_url","image_url":{"url":"a"}}${tail}`,
    `${head}"user","content":[{"type":"input_audio","input_audio":{"data":"b"}}${tail}`,
  ]);
});
