import { fc } from '../../../support/properties.ts';
import { describe, expect, test } from 'vitest';
import { Detokenizer, OVERLAP_TOKENS } from '#engine/proxy/connectors/render/detokenizer.ts';

/** Tokens are bytes, as in a byte-level tokenizer: characters of several tokens, incomplete ones shown as U+FFFD. */
const bytes = (tokens: readonly number[]): Promise<string> => Promise.resolve(Buffer.from(tokens).toString('utf8'));

/** Words lose their leading space at the start of what is decoded, as with SentencePiece. */
const words = (tokens: readonly number[]): Promise<string> => Promise.resolve(tokens.map((token) => `w${token}`).join(' '));

async function decodeAll(detokenizer: Detokenizer, pieces: readonly (readonly number[])[]): Promise<string[]> {
  const texts: string[] = [];
  for (const [index, piece] of pieces.entries()) texts.push(await detokenizer.push(piece, index === pieces.length - 1));
  return texts;
}

test('a character of several tokens appears whole, when its last token is there', async () => {
  const euro = [...Buffer.from('€!')];
  const texts = await decodeAll(new Detokenizer(bytes, [0x3a]), euro.map((byte) => [byte]));
  expect(texts).toEqual(['', '', '€', '!']);
});

test('a character that never completes is shown at the end as it is', async () => {
  expect(await decodeAll(new Detokenizer(bytes, []), [[0x61], [0xe2], []])).toEqual(['a', '', '\uFFFD']);
});

test('the prompt\'s tail decides about the leading space', async () => {
  expect(await decodeAll(new Detokenizer(words, [1, 2]), [[3], [4]])).toEqual([' w3', ' w4']);
  expect(await decodeAll(new Detokenizer(words, []), [[3], [4]])).toEqual(['w3', ' w4']);
});

test('windows stay small however long the answer is', async () => {
  let longest = 0;
  let calls = 0;
  const detokenizer = new Detokenizer((tokens) => {
    calls++;
    longest = Math.max(longest, tokens.length);
    return words(tokens);
  }, [0]);
  let text = '';
  for (let token = 1; token <= 1000; token++) text += await detokenizer.push([token], token === 1000);
  expect(text).toBe(Array.from({ length: 1000 }, (_, index) => ` w${index + 1}`).join(''));
  expect(longest).toBe(97);
  expect(calls).toBe(1000 + Math.floor(1000 / (96 - OVERLAP_TOKENS + 1)) + 1);
});

test('tokens that never make a character are shown after a while', async () => {
  const detokenizer = new Detokenizer(bytes, []);
  let shown = '';
  for (let at = 0; at < 300; at++) shown += await detokenizer.push([0xff], false);
  expect(shown.length).toBeGreaterThanOrEqual(256);
});

describe('whatever the pieces', () => {
  const cut = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 30 });
  test('the text is that of all tokens', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 60 }), cut, async (text, sizes) => {
        const tokens = [...Buffer.from(text)];
        const pieces: number[][] = [];
        for (const size of sizes) pieces.push(tokens.splice(0, size));
        pieces.push(tokens);
        expect((await decodeAll(new Detokenizer(bytes, [0x78]), pieces)).join('')).toBe(text);
      }),
    );
  });
});
