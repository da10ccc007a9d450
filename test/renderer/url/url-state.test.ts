import { assert, constantFrom, property, record, string, type Arbitrary } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { VIEWS } from '#shared/views.ts';
import { DEFAULT_URL_STATE, formatHash, parseHash, switchView, type UrlState } from '../../../renderer/src/url/url-state.ts';

const anyState: Arbitrary<UrlState> = record({
  view: constantFrom(...VIEWS),
  filter: string({ unit: 'grapheme' }),
  highlight: string(),
  selection: string(),
  tab: string(),
  windowMin: constantFrom(5, 15),
  scope: string(),
  metric: string(),
  percentile: string(),
  form: string(),
  open: string(),
  hidden: string(),
  pick: string(),
});

describe('url state', () => {
  it('survives the trip through the hash', () => {
    assert(
      property(anyState, (state) => {
        expect(parseHash(formatHash(state))).toEqual(state);
      }),
    );
  });

  it('writes only what differs from the default', () => {
    expect(formatHash(DEFAULT_URL_STATE)).toBe('#/overview');
    expect(formatHash({ ...DEFAULT_URL_STATE, view: 'requests', filter: 'ttft>500 role:decode', windowMin: 15 })).toBe('#/requests?q=ttft%3E500+role%3Adecode&win=15');
  });

  it.each(['', '#', '#/', '#/nonsense', '#/nonsense?win=99', '#?'])('reads %j as the default', (hash) => {
    expect(parseHash(hash)).toEqual(DEFAULT_URL_STATE);
  });

  it('takes the window along to another view, and nothing else that is not remembered', () => {
    const from: UrlState = { ...DEFAULT_URL_STATE, view: 'requests', filter: 'status:5xx', selection: 'r1', windowMin: 15 };
    expect(switchView(from, 'kv-events', undefined)).toEqual({ ...DEFAULT_URL_STATE, view: 'kv-events', windowMin: 15 });
    expect(switchView(from, 'kv-events', { ...DEFAULT_URL_STATE, view: 'kv-events', filter: 'type:gap' })).toMatchObject({ filter: 'type:gap', windowMin: 15 });
  });
});
