import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { TextAssembler } from '#engine/simulator/text-assembler.ts';
import { encodeText } from '#engine/simulator/tokenizer.ts';

function assemble(text: string, stop: readonly string[]): { readonly deltas: string[]; readonly text: string } {
  const assembler = new TextAssembler(stop);
  const deltas = encodeText(text).map((token) => assembler.push(token));
  deltas.push(assembler.end());
  return { deltas, text: assembler.text };
}

describe('text of a stream', () => {
  it('shows a character only when all its bytes are there', () => {
    expect(assemble('é', []).deltas).toEqual(['', 'é', '']);
  });

  it('never shows any part of a stop string', () => {
    const { deltas, text } = assemble('the river and the mountain', [' and the']);
    expect(text).toBe('the river');
    expect(deltas.join('')).toBe('the river');
  });

  it('cuts where the text first holds a stop string, whatever the token borders', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), fc.string({ minLength: 1, maxLength: 4 }), (text, stop) => {
        const found = text.indexOf(stop);
        expect(assemble(text, [stop]).deltas.join('')).toBe(found < 0 ? text : text.slice(0, found));
      }),
    );
  });
});
