import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { decodeTokens, encodeText, EOS_TOKEN, tokenText, VOCABULARY_SIZE } from '#engine/simulator/tokenizer.ts';

describe('simulated tokenizer', () => {
  it('gives back any text exactly', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        const tokens = encodeText(text);
        expect(decodeTokens(tokens)).toBe(text);
        expect(tokens.every((token) => token >= 0 && token < VOCABULARY_SIZE)).toBe(true);
      }),
    );
  });

  it('knows words with their leading space as one token', () => {
    expect(encodeText('the prefill and the decode').map(tokenText)).toEqual(['the', ' prefill', ' and', ' the', ' decode']);
  });

  it('gives chat markers the ids of Qwen3', () => {
    const tokens = encodeText('<|im_start|>user\nhi<|im_end|>');
    expect(tokens[0]).toBe(151644);
    expect(tokens.at(-1)).toBe(151645);
    expect(EOS_TOKEN).toBe(151645);
  });

  it('spells unknown words in runs of letters and bytes', () => {
    expect(encodeText('Zyzzyva').map(tokenText).join('')).toBe('Zyzzyva');
    expect(encodeText('é')).toEqual([0xc3, 0xa9]);
  });
});
