import { describe, expect, it } from 'vitest';
import { EngineCall } from '#engine/cache/engine-call.ts';
import { TokenText } from '#engine/cache/token-text.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { waitFor } from '../../integration/engine/wait-for.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { closers, engineNamed, type Handle } from './fake-engine.ts';

function textOver(instances: readonly Instance[], patienceMs = WAIT_LIMIT_MS): TokenText {
  const call = new EngineCall({ timeoutMs: WAIT_LIMIT_MS, maxAnswerBytes: 10_000 });
  closers.unshift(() => call.close());
  return new TokenText({ call, instances: () => instances, authorization: undefined, patienceMs, capacity: 3 });
}

const say: Handle = ({ tokens }) => ({ text: JSON.stringify({ prompt: `<${(tokens as readonly number[]).join('-')}>` }) });

describe('TokenText', () => {
  it('asks for each text once, in whatever order and however often it is wanted', async () => {
    const asked: string[] = [];
    const text = textOver([await engineNamed('P0', say, asked)]);
    expect(await text.decode([{ tokens: [1, 2] }, { tokens: [] }, { tokens: [3] }, { tokens: [1, 2] }])).toEqual(['<1-2>', undefined, '<3>', '<1-2>']);
    expect(await text.decode([{ tokens: [3] }, { tokens: [1, 2] }])).toEqual(['<3>', '<1-2>']);
    expect(asked).toHaveLength(2);
  });

  it('forgets the text not wanted for longest', async () => {
    const asked: string[] = [];
    const text = textOver([await engineNamed('P0', say, asked)]);
    await text.decode([{ tokens: [1] }, { tokens: [2] }, { tokens: [3] }]);
    await text.decode([{ tokens: [1] }, { tokens: [4] }]);
    expect(asked).toHaveLength(4);
    await text.decode([{ tokens: [1] }]);
    expect(asked).toHaveLength(4);
    await text.decode([{ tokens: [2] }]);
    expect(asked).toHaveLength(5);
  });

  it('asks those that hold the tokens, and of others only those of the same model', async () => {
    const asked: string[] = [];
    const [p0, p1] = [await engineNamed('P0', say, asked, ['a']), await engineNamed('P1', say, asked, ['b'])];
    const text = textOver([p0, p1]);
    await text.decode([{ tokens: [1], holders: [p1.id] }]);
    expect(asked).toEqual(['P1 /detokenize']);
    p1.state = 'down';
    expect(await text.decode([{ tokens: [2], holders: [p1.id] }])).toEqual([undefined]);
    expect(await text.decode([{ tokens: [2], holders: [p0.id] }])).toEqual(['<2>']);
  });

  it('does not ask again an engine without the route, and answers without text', async () => {
    const asked: string[] = [];
    const text = textOver([await engineNamed('P0', () => ({ status: 404, text: '{}' }), asked)]);
    expect(await text.decode([{ tokens: [1] }])).toEqual([undefined]);
    expect(await text.decode([{ tokens: [1] }, { tokens: [2] }])).toEqual([undefined, undefined]);
    expect(asked).toHaveLength(1);
  });

  it.each<[string, string]>([['no JSON', 'nonsense'], ['another shape', '{"prompt":7}'], ['a flood', `{"prompt":"${'x'.repeat(20_000)}"}`]])('takes %s for no text', async (_, answer) => {
    const text = textOver([await engineNamed('P0', () => ({ text: answer }))]);
    expect(await text.decode([{ tokens: [1] }])).toEqual([undefined]);
  });

  it('does not wait longer than a moment; what comes later is there the next time', async () => {
    let answer: (() => void) | undefined;
    const text = textOver([await engineNamed('P0', async () => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return { text: JSON.stringify({ prompt: '<1>' }) };
    })], 50);
    expect(await text.decode([{ tokens: [1] }])).toEqual([undefined]);
    // The question may still be on its way.
    await waitFor('the engine is asked', () => answer !== undefined);
    answer?.();
    await waitFor('the text came', async () => (await text.decode([{ tokens: [1] }]))[0] === '<1>');
  });
});
