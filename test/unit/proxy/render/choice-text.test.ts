import { describe, expect, test } from 'vitest';
import { ChoiceText, type ChoiceFinish } from '#engine/proxy/connectors/render/choice-text.ts';
import { Detokenizer } from '#engine/proxy/connectors/render/detokenizer.ts';
import { findStop } from '#engine/proxy/connectors/render/stop-text.ts';

const EOS = 0;
const text = (tokens: readonly number[]): Promise<string> => Promise.resolve(tokens.map((token) => (token === EOS ? '<end>' : String.fromCodePoint(token))).join(''));
const codes = (value: string): number[] => Array.from(value, (letter) => letter.codePointAt(0) ?? 0);

interface Given {
  readonly pieces: readonly string[];
  readonly last: readonly number[];
  readonly finish: ChoiceFinish | undefined;
  readonly stop?: readonly string[];
  readonly isIncluded?: boolean;
}

async function run({ pieces, last, finish, stop = [], isIncluded = false }: Given): Promise<{ readonly texts: readonly string[]; readonly finish: ChoiceFinish | undefined }> {
  const choice = new ChoiceText(0, new Detokenizer(text, []), { strings: stop, isIncluded });
  const texts: string[] = [];
  for (const piece of pieces) {
    choice.add(codes(piece), undefined);
    texts.push((await choice.next()).text);
  }
  choice.add(last, finish);
  if (finish === undefined) choice.end();
  const end = await choice.next();
  texts.push(end.text);
  expect(choice.hasWork).toBe(false);
  return { texts, finish: end.finish };
}

describe('how an answer ends', () => {
  const stopped = (stopReason: unknown): ChoiceFinish => ({ reason: 'stop', stopReason });

  test('by length: every token is text, also what looks like a stop string', async () => {
    expect(await run({ pieces: ['ab'], last: codes('cX'), finish: { reason: 'length', stopReason: null }, stop: ['XY'] })).toEqual({
      texts: ['a', 'bcX'],
      finish: { reason: 'length', stopReason: null },
    });
  });
  test.each([undefined, null, EOS])('by EOS (stop_reason %s): its token is no text', async (reason) => {
    expect(await run({ pieces: ['ab'], last: [...codes('c'), EOS], finish: stopped(reason) })).toEqual({ texts: ['ab', 'c'], finish: stopped(reason) });
    expect((await run({ pieces: ['ab'], last: [EOS], finish: stopped(reason) })).texts).toEqual(['ab', '']);
  });
  test('by EOS, included on request', async () => {
    expect((await run({ pieces: ['ab'], last: [EOS], finish: stopped(null), isIncluded: true })).texts.join('')).toBe('ab<end>');
  });
  test.each([undefined, null, 'END'])('by a stop string across pieces (stop_reason %s): cut off, and named', async (reason) => {
    expect(await run({ pieces: ['abE', 'N'], last: codes('Dxx'), finish: stopped(reason), stop: ['END', 'zzz'] })).toEqual({
      texts: ['a', 'b', ''],
      finish: stopped('END'),
    });
  });
  test('by a stop string, included on request, but nothing after it', async () => {
    expect((await run({ pieces: ['abE', 'N'], last: codes('D!'), finish: stopped('END'), stop: ['END'], isIncluded: true })).texts.join('')).toBe('abEND');
  });
  test('by EOS although there are stop strings', async () => {
    expect(await run({ pieces: ['abE', 'N'], last: [EOS], finish: stopped(null), stop: ['END'] })).toEqual({ texts: ['a', 'b', 'EN'], finish: stopped(null) });
  });
  test('without a finish reason: what was held back goes out', async () => {
    expect(await run({ pieces: ['abE', 'N'], last: [], finish: undefined, stop: ['END'] })).toEqual({ texts: ['a', 'b', 'EN'], finish: undefined });
  });
});

test('tokens that arrive during a call go with the next', async () => {
  const asked: string[] = [];
  let release: (() => void) | undefined;
  const detokenizer = new Detokenizer(async (tokens) => {
    asked.push(await text(tokens));
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    return text(tokens);
  }, []);
  const choice = new ChoiceText(0, detokenizer, { strings: [], isIncluded: false });
  choice.add(codes('a'), undefined);
  const first = choice.next();
  await Promise.resolve();
  for (const letter of 'bcd') choice.add(codes(letter), undefined);
  expect(choice.waiting).toBe(3);
  release?.();
  expect((await first).text).toBe('a');
  const second = choice.next();
  await new Promise((resolve) => setImmediate(resolve));
  release?.();
  expect((await second).text).toBe('bcd');
  expect(asked).toEqual(['a', 'abcd']);
});

test('the first stop string in the text counts, whatever their order', () => {
  expect(findStop('one two three', { strings: ['three', 'two'], isIncluded: false })).toEqual({ end: 4, stop: 'two' });
  expect(findStop('one two three', { strings: ['three', 'two'], isIncluded: true })).toEqual({ end: 7, stop: 'two' });
  expect(findStop('one', { strings: ['two'], isIncluded: true })).toBeUndefined();
});
