import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import { cellBlocks, cellWords, rowKey, rowName } from '../../../renderer/src/features/cache/cell-words.ts';
import { differenceParts, joinSides, sizeBasis, splitSides } from '../../../renderer/src/features/cache/difference-parts.ts';
import { handoffRows } from '../../../renderer/src/features/cache/handoff-rows.ts';
import { hitChartRows, hitRate, hitTableRows, seriesOf } from '../../../renderer/src/features/cache/hit-rows.ts';
import { capacityCells, cellAt, cellOrigin, linesOf, mapLayout, PITCH_PX } from '../../../renderer/src/features/cache/residency-layout.ts';
import { colouringOf, countSteps, SCALES, stepOf } from '../../../renderer/src/features/cache/residency-scale.ts';
import { stormBars } from '../../../renderer/src/features/cache/storm-bars.ts';
import { stormedInstances, stormNextSteps } from '../../../renderer/src/features/cache/storm-summary.ts';
import { CACHE_NOW, sampleDifference, sampleHandoff, sampleHits, sampleResidencyRow, sampleStorms, SURE } from './sample-cache.ts';

describe('hit rows', () => {
  it('keeps sources apart, fleet and instances apart, and gaps as gaps', () => {
    const hits = sampleHits();
    const fleet = seriesOf(hits, '');
    expect(fleet.map(({ source }) => source)).toEqual(['engine-local', 'engine-external', 'by-source', 'prefill-cached-tokens', 'decode-cached-tokens', 'index']);
    expect(seriesOf(hits, 'p1').map(({ source }) => source)).toEqual(['engine-local', 'prefill-cached-tokens', 'index']);
    const rows = hitChartRows(hits, fleet);
    expect(rows).toHaveLength(60);
    // The sample leaves three of seventeen steps without a question to the connector.
    expect(rows.filter((row) => row['engine-external'] === undefined)).toHaveLength(12);
    expect(rows.every((row) => (row['index'] ?? 0) > 40 && (row['index'] ?? 0) < 60)).toBe(true);
  });

  it('says nothing where nothing was asked', () => {
    expect(hitRate({ hitTokens: 0, queryTokens: 0 })).toBeUndefined();
    expect(hitRate(undefined)).toBeUndefined();
    expect(hitRate({ hitTokens: 0, queryTokens: 8 })).toBe(0);
    const table = hitTableRows(sampleHits());
    expect(table.map(({ name }) => name)).toEqual(['fleet', 'D0', 'P0', 'P1']);
    expect(table[3]?.cells['prefill-cached-tokens']).toBeUndefined();
    expect(table[0]?.cells.index?.confidence?.value).toBe(0.864);
  });
});

describe('residency layout', () => {
  it('gives each stream the lines that fit, and asks for as many cells', () => {
    expect(mapLayout({ widthPx: 704, heightPx: 620, rows: 5 })).toEqual({ columns: 88, lines: 14, cells: 88 * 14 });
    expect(mapLayout({ widthPx: 704, heightPx: 620, rows: 100 })).toMatchObject({ lines: 2 });
    expect(mapLayout({ widthPx: 0, heightPx: 0, rows: 0 })).toEqual({ columns: 8, lines: 2, cells: 16 });
    expect(mapLayout({ widthPx: 9000, heightPx: 9000, rows: 1 }).cells).toBe(8192);
  });

  it('finds the cell under a point, and none beside the cells', () => {
    const grid = { columns: 10, count: 25 };
    for (const index of [0, 9, 10, 24]) {
      const { x, y } = cellOrigin(index, grid.columns);
      expect(cellAt(x + 3, y + 3, grid)).toBe(index);
    }
    expect(cellAt(5 * PITCH_PX, 2 * PITCH_PX, grid)).toBeUndefined();
    expect(cellAt(10 * PITCH_PX, 0, grid)).toBeUndefined();
    expect(cellAt(-1, 0, grid)).toBeUndefined();
    expect(linesOf(25, 10)).toBe(3);
    expect(linesOf(0, 10)).toBe(1);
  });

  it('draws free cells only when all of them fit', () => {
    expect(capacityCells({ capacityBlocks: 100, blocksPerCell: 9 }, 20)).toBe(12);
    expect(capacityCells({ capacityBlocks: 1000, blocksPerCell: 9 }, 20)).toBeUndefined();
    expect(capacityCells({ blocksPerCell: 9 }, 20)).toBeUndefined();
  });
});

describe('residency scale', () => {
  it('puts a value into the last step that it reaches', () => {
    expect(SCALES.age.steps[stepOf(SCALES.age, 9.9)]?.label).toBe('< 10 s');
    expect(SCALES.age.steps[stepOf(SCALES.age, 3600)]?.label).toBe('≥ 1 h');
    expect(SCALES.reuse.steps[stepOf(SCALES.reuse, 1.4)]?.label).toBe('once');
    expect(SCALES.owners.steps[stepOf(SCALES.owners, 2)]?.label).toBe('2');
    expect(colouringOf('owners')).toBe('owners');
    expect(colouringOf('x')).toBe('age');
  });

  it('counts every cell once', () => {
    const row = sampleResidencyRow('P0', 140, 2048);
    for (const scale of Object.values(SCALES)) expect(countSteps(scale, row).reduce((sum, count) => sum + count, 0)).toBe(140);
  });

  it('reads a cell, and says when its figures are means', () => {
    expect(cellWords(sampleResidencyRow('P0', 140, 2048), 0)).toMatch(/^P0\/0 block 1 of 140 · stored 2\u2009h ago · reused 40× · held by /);
    const binned = sampleResidencyRow('P0', 100, 30);
    expect(cellBlocks(binned, 0)).toBe('1–4');
    expect(cellBlocks(binned, 24)).toBe('97–100');
    expect(cellWords(binned, 24)).toContain('blocks 97–100 of 100');
    expect(cellWords(binned, 24)).toContain('(mean)');
  });

  it('names rows by stream, and media other than the GPU', () => {
    const row = sampleResidencyRow('P0', 140, 2048);
    expect([rowName(row), rowKey(row)]).toEqual(['P0/0', 'p0/0']);
    expect([rowName({ ...row, medium: 'CPU' }), rowKey({ ...row, medium: 'CPU' })]).toEqual(['P0/0 CPU', 'p0/0 CPU']);
    expect(cellWords({ ...row, medium: 'CPU' }, 0)).toMatch(/^P0\/0 CPU block 1 of 140 · /);
  });
});

describe('difference parts', () => {
  it('shares out all blocks', () => {
    const parts = differenceParts(sampleDifference(), ['P', 'D']);
    expect(parts.map(({ name }) => name)).toEqual(['on P only', 'on both', 'on D only']);
    expect(parts.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 10);
    expect(parts[1]?.share).toBeCloseTo(18_829 / 40_112, 10);
  });

  it('sizes what is held more than once, where all of it can be sized', () => {
    const [left, both] = differenceParts(sampleDifference({ onlyLeft: { blocks: 1, tokens: 16, copies: 3, bytes: 100, samples: [] } }), ['P', 'D']);
    expect([left?.duplicatedBytes, both?.duplicatedBytes]).toEqual([undefined, (6.25 - 2.3) * 2 ** 30]);
  });

  it('says what sizes rest on, and never mixes sources', () => {
    const given = { bytesPerToken: 8192, from: 'setting', detail: 'given with D0' } as const;
    const { rightBytes: _right, ...noRight } = sampleDifference();
    const { leftBytes: _left, ...none } = noRight;
    expect(sizeBasis({ ...noRight, rightBytes: given }, ['P', 'D'])).toBe('Sizes by P: 8,192 bytes a token, worked out from P0’s model and cache configuration; D: 8,192 bytes a token, given with D0.');
    expect(sizeBasis(noRight, ['P', 'D'])).toContain('D: not known, or its instances differ.');
    expect(sizeBasis(none, ['P', 'D'])).toContain('No sizes');
  });

  it('keeps both sides in one word of the link', () => {
    expect(joinSides('', '')).toBe('');
    expect(splitSides(joinSides('p0', ''))).toEqual(['p0', '']);
    expect(splitSides(joinSides('', 'd1'))).toEqual(['', 'd1']);
    expect(splitSides('')).toEqual(['', '']);
  });
});

describe('handoff rows', () => {
  const rows = (part: Parameters<typeof sampleHandoff>[0], tokens: { readonly redundantTokens?: number; readonly transferredTokens?: number } = {}) => {
    const { redundantTokens: _redundant, transferredTokens: _transferred, ...bare } = sampleDifference({ handoff: sampleHandoff(part) });
    return new Map(handoffRows({ ...bare, ...tokens }, 'D').map((row) => [row.id, row]));
  };

  it('say what is absent and why, instead of 0', () => {
    const { received: _received, again: _again, ...bare } = sampleHandoff({ connectors: [], resends: 'unknown', legs: { fetching: 0, known: 0, promptTokens: 0, heldTokens: 0 } });
    const absent = handoffRows({ ...sampleDifference(), handoff: bare }, 'D').slice(0, 3);
    expect(absent.map(({ tokens, basis }) => [tokens, basis])).toEqual([
      [undefined, 'no engine here exposes prompt_tokens_by_source or external_prefix_cache_hits'],
      [undefined, 'no decode leg fetched KV in the window'],
      [undefined, 'no instance of D has a KV event stream'],
    ]);
    const { redundantTokens: _redundant, transferredTokens: _transferred, ...difference } = sampleDifference();
    const reported = handoffRows({ ...difference, handoff: { ...bare, connectors: ['nixl'], resends: 'missing', again: { blocks: 0, tokens: 0, announced: 7, confidence: SURE } } }, 'D');
    expect(reported.slice(2).map(({ tokens, basis }) => [tokens, basis])).toEqual([
      [0, 'no block is known to have got a second copy; 7 further blocks announced as reused, which a second copy looks like where requests ask for kv_cache_report_mode'],
      [undefined, 'cannot be told: second copies look like reuse that is announced where requests ask for kv_cache_report_mode'],
    ]);
    expect(rows({ connectors: [], resends: 'unknown' }).get('redundant')).toMatchObject({ basis: 'cannot be told: no decode leg fetched KV in the window' });
    expect(rows({ connectors: ['plain'], resends: 'unknown' }).get('redundant')).toMatchObject({ basis: 'cannot be told: it is not known which blocks plain sends' });
    expect(rows({ legs: { fetching: 9, known: 0, promptTokens: 0, heldTokens: 0 } }).get('held')).toMatchObject({ basis: expect.stringContaining('of 9 decode legs none is known') });
  });

  it('of a protocol that sends everything name what was held of the prompts known', () => {
    expect(rows({ connectors: ['moriio'], resends: 'all' }, { redundantTokens: 310_000, transferredTokens: 900_000 }).get('redundant')).toMatchObject({
      tokens: 310_000, isNotable: true, basis: 'moriio sends whole prompts: what D held, of 900,000 tokens of the 1,150 prompts known',
    });
  });

  it('mark a share from one in a hundred', () => {
    expect(rows({}, { redundantTokens: 9, transferredTokens: 1000 }).get('redundant')?.isNotable).toBe(false);
    expect(rows({}, { redundantTokens: 10, transferredTokens: 1000 }).get('redundant')?.isNotable).toBe(true);
    expect(rows({}, { redundantTokens: 0, transferredTokens: 0 }).get('redundant')).toMatchObject({ tokens: 0, isNotable: false });
  });
});

describe('stormed instances', () => {
  it('sum up each instance, the dearest first, with evidence and a next step', () => {
    const engine = { scrapedAtUnixMs: 0, gpuBlocks: 2048, kvUsage: 0.41 };
    const rows = stormedInstances(sampleStorms().storms, [{ id: 'p1' as InstanceId, role: 'prefill', engine }, { id: 'p0' as InstanceId, role: 'prefill' }, { id: 'd0' as InstanceId, role: 'decode' }], 30);
    expect(rows.map(({ name, storms, blocks, tokens }) => [name, storms, blocks, tokens])).toEqual([['P1', 2, 1016, 16_256], ['D0', 1, 17, 272]]);
    expect(rows[0]?.evidence).toMatch(/^1,016 blocks stored again within 30\ss of being evicted, the fastest after 212\sms; its cache has 2,048 blocks, 41\.0 % in use by running requests$/u);
    const steps = stormNextSteps(rows, [{ id: 'p1' as InstanceId, role: 'prefill' }, { id: 'p0' as InstanceId, role: 'prefill' }, { id: 'd0' as InstanceId, role: 'decode' }]);
    expect(steps.map(({ names }) => names)).toEqual(['P1', 'D0']);
    expect(steps[0]?.text).toContain('policy prefix-aware');
    // One decode instance has nobody to share with.
    expect(steps[1]?.text).toMatch(/^272 tokens were fetched or computed twice.*--max-num-seqs/u);
    expect(steps[1]?.text).not.toContain('prefix-aware');
  });
});

describe('storm bars', () => {
  it('gives each stream a lane and cuts at the window', () => {
    const { lanes, bars } = stormBars(sampleStorms().storms, { fromUnixMs: CACHE_NOW - 220_000, toUnixMs: CACHE_NOW, widthPx: 220, instances: ['p1', 'd0'] as InstanceId[] });
    expect(lanes.map(({ name }) => name)).toEqual(['P1/0', 'D0/0']);
    expect(bars.map(({ lane, x, width }) => [lane, x, width])).toEqual([[0, 0, 11], [0, 130, 12], [1, 159, 3]]);
  });

  it('orders the lanes as the instances are given, those that are not given last', () => {
    const lanesOf = (instances: readonly string[]): readonly string[] => stormBars(sampleStorms().storms, { fromUnixMs: CACHE_NOW - 220_000, toUnixMs: CACHE_NOW, widthPx: 220, instances: instances as readonly InstanceId[] }).lanes.map(({ name }) => name);
    expect(lanesOf(['d0', 'p1'])).toEqual(['D0/0', 'P1/0']);
    expect(lanesOf(['p1'])).toEqual(['P1/0', 'D0/0']);
  });
});
