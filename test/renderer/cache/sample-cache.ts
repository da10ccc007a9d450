/** Cache answers for renderer tests and for looking at the page. Every figure is a function of its arguments. */
import type {
  BlockDetail, CacheDifference, CacheHits, Confidence, EvictionStorm, EvictionStorms, HandoffMeasure, HitPoint, HitSource, MissReport, MissSummary, NodeHolder, RawFrames, ResidencyMap, ResidencyRow, TreeNode, TreePage,
} from '#shared/cache.ts';
import type { InstanceId, RecordId, StreamId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import { hashOf } from '../kv-events/sample-events.ts';

export const CACHE_NOW = Date.UTC(2026, 10, 20, 14, 2, 31);

export const SURE: Confidence = { value: 1, reasons: [] };
export const DOUBTFUL: Confidence = {
  value: 0.864,
  reasons: [
    { code: 'batches-lost', stream: 'd2/0' as StreamId, text: '23 batches were lost in a gap: blocks stored in them are unknown, blocks removed in them look resident.' },
    { code: 'joined-late', stream: 'p1/0' as StreamId, text: '112 batches went by before the stream was joined.' },
  ],
};
const BAD: Confidence = { value: 0.31, reasons: [{ code: 'connection-lost', stream: 'd1/0' as StreamId, text: 'The connection broke 41 s ago.' }] };

export function sampleHolder(name: string, part: Partial<NodeHolder> = {}): NodeHolder {
  const id = name.toLowerCase();
  const role: Role = name.startsWith('P') ? 'prefill' : 'decode';
  return { stream: `${id}/0` as StreamId, instance: id as InstanceId, instanceName: name, role, medium: 'GPU', ...part };
}

const TEXTS = [
  '<|im_start|>system\nYou are a careful assistant. Today is 2026-11-20.', 'def schedule(self, cycler): return next(cycler)', '<|im_start|>user\nSummarise the following passage in three sentences:',
  'the quarterly report says that revenue from subscriptions grew', 'Translate to German:', '{"tools": [{"type": "function", "function": {"name": "search"',
] as const;

export function sampleNode(node: number, part: Partial<TreeNode> = {}): TreeNode {
  const text = node % 5 === 4 ? undefined : TEXTS[node % TEXTS.length];
  return {
    node, runBlocks: 1 + ((node * 7) % 40), blocksBelow: node % 3 === 0 ? 0 : 12 + ((node * 131) % 900), blockSize: 16, tokens: Array.from({ length: 64 }, (_, index) => (node * 7919 + index * 104_729) % 151_936),
    ...(text !== undefined && { text }), reuse: (node * 37) % 812, lastStoredAtUnixMs: CACHE_NOW - (node * 1700) % 600_000,
    holders: [sampleHolder('P0'), ...(node % 2 === 0 ? [sampleHolder('D0')] : []), ...(node % 3 === 1 ? [sampleHolder('P1', { medium: 'CPU' })] : []), ...(node % 7 === 0 ? ['D1', 'D2'].map((name) => sampleHolder(name)) : [])],
    children: node % 3 === 0 ? 0 : 2 + (node % 5), ...(node % 6 === 5 && { extraKeys: '["lora:sql-v2"]' }), ...part,
  };
}

/** The top has twelve runs; node n has children 10n+1, 10n+2, … */
export function samplePage(node: number | undefined, part: Partial<TreePage> = {}): TreePage {
  const parent = node === undefined ? undefined : sampleNode(node);
  const children = Array.from({ length: parent?.children ?? 12 }, (_, index) => sampleNode((node ?? 0) * 10 + index + 1));
  return {
    path: parent === undefined ? [] : [parent], children: [...children].sort((a, b) => b.runBlocks + b.blocksBelow - a.runBlocks - a.blocksBelow), omitted: node === undefined ? 0 : 42,
    totalNodes: 40_112, capacity: 1_000_000, evicted: 0, confidence: DOUBTFUL, ...part,
  };
}

const RATES: Readonly<Record<HitSource, number>> = { 'engine-local': 0.46, 'engine-external': 0.93, 'by-source': 0.58, 'prefill-cached-tokens': 0.44, 'decode-cached-tokens': 0.97, index: 0.52 };

function points(source: HitSource, count: number, stepMs: number): readonly HitPoint[] {
  return Array.from({ length: count }, (_, index) => ({ index, queryTokens: 4000 + ((index * 613) % 2100) }))
    .filter(({ index }) => source !== 'engine-external' || index % 17 > 2)
    .map(({ index, queryTokens }) => {
      const wave = Math.sin(index / 6 + RATES[source] * 9) * 0.06;
      return { atUnixMs: CACHE_NOW - (count - index - 0.5) * stepMs, queryTokens, hitTokens: Math.round(queryTokens * Math.min(1, Math.max(0, RATES[source] + wave))) };
    });
}

export function sampleHits({ windowS = 300, stepS = 5 } = {}): CacheHits {
  const count = windowS / stepS;
  const series = (source: HitSource, name?: string, isSilent = false): CacheHits['series'][number] => {
    const its = isSilent ? [] : points(source, count, stepS * 1000);
    const sum = (key: 'hitTokens' | 'queryTokens'): number => its.reduce((total, point) => total + point[key], 0);
    return {
      source, points: its, ...(name !== undefined && { instance: name.toLowerCase() as InstanceId, instanceName: name }),
      ...(!isSilent && { whole: { hitTokens: sum('hitTokens'), queryTokens: sum('queryTokens') } }), ...(source === 'index' && { confidence: DOUBTFUL, sample: { requests: 212, of: name === undefined ? 3140 : 212 } }),
    };
  };
  return {
    nowUnixMs: CACHE_NOW, windowS, stepS,
    series: [
      ...(Object.keys(RATES) as HitSource[]).map((source) => series(source)),
      series('engine-local', 'P0'), series('prefill-cached-tokens', 'P0'), series('index', 'P0'), series('engine-local', 'P1'), series('prefill-cached-tokens', 'P1', true), series('index', 'P1'),
      series('engine-external', 'D0'), series('decode-cached-tokens', 'D0'), series('by-source', 'D0'),
    ],
    disagreements: [
      { instance: 'p1' as InstanceId, instanceName: 'P1', left: 'engine-local', right: 'index', leftRate: 0.314, rightRate: 0.521, meaning: 'The index believes in blocks that the engine no longer has: removals were lost in a gap, or the engine was restarted without saying so.' },
      { instance: 'd0' as InstanceId, instanceName: 'D0', left: 'decode-cached-tokens', right: 'engine-local', leftRate: 0.97, rightRate: 0.12, meaning: 'cached_tokens of decode counts tokens pulled from prefill; its own cache found few.' },
    ],
  };
}

export function sampleResidencyRow(name: string, blocks: number, cells: number, part: Partial<ResidencyRow> = {}): ResidencyRow {
  const blocksPerCell = Math.max(1, Math.ceil(blocks / cells));
  const count = Math.ceil(blocks / blocksPerCell);
  const each = (value: (index: number) => number): readonly number[] => Array.from({ length: count }, (_, index) => value(index));
  return {
    ...sampleHolder(name), medium: 'GPU', blocks, blocksPerCell, capacityBlocks: 16_384, ageS: each((index) => Math.round(((count - index) / count) ** 3 * 7200)), reuse: each((index) => (index < count / 8 ? 40 : (index * 7919) % 11)),
    holders: each((index) => 1 + ((index * 31) % 9 > 6 ? 3 : (index * 17) % 2)), node: each((index) => index + 1), unplaced: 0, confidence: SURE, ...part,
  };
}

export function sampleResidency(cells: number): ResidencyMap {
  return {
    nowUnixMs: CACHE_NOW,
    rows: [
      sampleResidencyRow('P0', 9881, cells), sampleResidencyRow('P1', 15_902, cells, { unplaced: 311, confidence: DOUBTFUL }), sampleResidencyRow('D0', 7864, cells),
      sampleResidencyRow('D1', 3120, cells, { confidence: BAD }), sampleResidencyRow('D2', 140, cells),
    ],
  };
}

export function sampleHandoff(part: Partial<HandoffMeasure> = {}): HandoffMeasure {
  return {
    windowS: 300, connectors: ['nixl'], resends: 'missing',
    received: { tokens: 561_000, from: 'prompt_tokens_by_source', instances: 3, bytes: 4.3 * 2 ** 30, bytesFrom: 'nixl' },
    legs: { fetching: 1200, known: 1150, promptTokens: 900_000, heldTokens: 310_000, confidence: DOUBTFUL },
    again: { blocks: 4210, tokens: 67_360, announced: 0, confidence: BAD },
    ...part,
  };
}

export function sampleDifference(part: Partial<CacheDifference> = {}): CacheDifference {
  const samples = (from: number, count: number): readonly TreeNode[] => Array.from({ length: count }, (_, index) => sampleNode(from + index * 2));
  return {
    left: ['p0', 'p1'] as InstanceId[], right: ['d0', 'd1', 'd2'] as InstanceId[],
    onlyLeft: { blocks: 9881, tokens: 158_096, copies: 12_400, bytes: 1.21 * 2 ** 30, copyBytes: 1.52 * 2 ** 30, samples: samples(1, 4) },
    onlyRight: { blocks: 11_402, tokens: 182_432, copies: 11_402, bytes: 1.39 * 2 ** 30, copyBytes: 1.39 * 2 ** 30, samples: samples(2, 3) },
    both: { blocks: 18_829, tokens: 301_264, copies: 51_200, bytes: 2.3 * 2 ** 30, copyBytes: 6.25 * 2 ** 30, samples: samples(20, 5) },
    leftBytes: { bytesPerToken: 8192, from: 'server-info', detail: 'worked out from P0’s model and cache configuration' },
    rightBytes: { bytesPerToken: 8192, from: 'server-info', detail: 'worked out from D0’s model and cache configuration' },
    redundantTokens: 67_360, transferredTokens: 561_000, handoff: sampleHandoff(), confidence: DOUBTFUL, ...part,
  };
}

export function sampleStorms(part: Partial<EvictionStorms> = {}): EvictionStorms {
  const storm = (name: string, agoS: number, lengthS: number, blocks: number): EvictionStorm => ({
    ...sampleHolder(name), fromUnixMs: CACHE_NOW - agoS * 1000, toUnixMs: CACHE_NOW - (agoS - lengthS) * 1000, blocks, tokens: blocks * 16, shortestMs: 212, medianMs: 4100, samples: [sampleNode(7), sampleNode(8), sampleNode(11)],
  });
  return { storms: [storm('P1', 240, 31, 812), storm('P1', 90, 12, 204), storm('D0', 61, 3, 17)], least: { blocks: 16, share: 0.01 }, fewBlocks: 0, ...part };
}

export function sampleBlock(node: number, part: Partial<BlockDetail> = {}): BlockDetail {
  return {
    node, tokens: sampleNode(node).tokens.slice(0, 16), text: TEXTS[node % TEXTS.length] ?? '', blockSize: 16, index: 12, extraKeys: '["lora:sql-v2"]',
    hashes: [{ stream: 'p0/0' as StreamId, instanceName: 'P0', hash: hashOf(node) }, { stream: 'd0/0' as StreamId, instanceName: 'D0', hash: hashOf(node + 1) }],
    parents: [sampleNode(1), sampleNode(2)], children: [sampleNode(node * 10 + 1), sampleNode(node * 10 + 4)], holders: [sampleHolder('P0'), sampleHolder('D0')],
    history: [
      { stream: 'p0/0' as StreamId, instanceName: 'P0', medium: 'GPU', epoch: 2, storedAtUnixMs: CACHE_NOW - 41_000, stores: 4 },
      { stream: 'p0/0' as StreamId, instanceName: 'P0', medium: 'GPU', epoch: 2, storedAtUnixMs: CACHE_NOW - 330_000, removedAtUnixMs: CACHE_NOW - 71_000, how: 'removed', stores: 11, displacedBy: 77 },
      { stream: 'd0/0' as StreamId, instanceName: 'D0', medium: 'GPU', epoch: 1, storedAtUnixMs: CACHE_NOW - 40_600, stores: 1 },
      { stream: 'p1/0' as StreamId, instanceName: 'P1', medium: 'CPU', epoch: 1, storedAtUnixMs: CACHE_NOW - 900_000, removedAtUnixMs: CACHE_NOW - 600_000, how: 'restart', stores: 2 },
    ],
    historyOmitted: 3, ...part,
  };
}

export function sampleReport(id: string, part: Partial<MissReport> = {}): MissReport {
  return {
    request: id as RecordId, state: 'ready', tokensFrom: 'render', atUnixMs: CACHE_NOW - 12_340, stream: 'p0/0' as StreamId, instanceName: 'P0', promptTokens: 2487, blockSize: 16, reportedCachedTokens: 96,
    ranges: [
      { kind: 'hit', fromBlock: 0, toBlock: 5, tokens: 96, message: 'Resident on P0 since 14:00:02, reused 812 times.' },
      {
        kind: 'diverges', fromBlock: 6, toBlock: 6, tokens: 16, message: 'A known prompt goes on with another token here: every block behind it gets another hash.',
        block: { stream: 'p0/0' as StreamId, instanceName: 'P0', hash: hashOf(6) },
        diverges: { block: 6, token: 101, asked: { tokens: [9125, 374, 220, 17, 15, 17, 21], text: 'Today is 2026-11-20T14:02:31. You answer' }, held: { tokens: [9125, 374, 220, 17, 15, 17, 20], text: 'Today is 2026-11-20T14:01:07. You answer' } },
      },
      { kind: 'elsewhere', fromBlock: 7, toBlock: 40, tokens: 544, message: 'P1 held these blocks when the request was scheduled.', elsewhere: [sampleHolder('P1'), sampleHolder('D0')], block: { stream: 'p1/0' as StreamId, instanceName: 'P1', hash: hashOf(7) } },
      { kind: 'evicted', fromBlock: 41, toBlock: 90, tokens: 800, message: 'P0 had them and evicted them 71 s before.', evictedAtUnixMs: CACHE_NOW - 83_000, displacedBy: 77 },
      { kind: 'never-stored', fromBlock: 91, toBlock: 130, tokens: 640, message: 'No instance has had these tokens after this prefix.' },
      { kind: 'other-key', fromBlock: 131, toBlock: 140, tokens: 160, message: 'The same tokens are held under another LoRA.', key: { what: 'lora', asked: 'sql-v2', held: 'sql-v1' } },
      { kind: 'reset', fromBlock: 141, toBlock: 146, tokens: 96, message: 'P0 restarted at 14:01:10; its cache was lost.' },
      { kind: 'unknown', fromBlock: 147, toBlock: 154, tokens: 128, message: 'Events that would tell were lost.', gap: { stream: 'p0/0' as StreamId, fromSeq: 96_102, toSeq: 96_124 } },
      { kind: 'partial-block', fromBlock: 155, toBlock: 155, tokens: 7, message: '7 of 16 tokens: only whole blocks are cached.' },
    ],
    matches: [
      { stream: 'p1/0' as StreamId, instanceName: 'P1', role: 'prefill', tokens: 656, wasChosen: false }, { stream: 'd0/0' as StreamId, instanceName: 'D0', role: 'decode', tokens: 640, wasChosen: false },
      { stream: 'p0/0' as StreamId, instanceName: 'P0', role: 'prefill', tokens: 96, wasChosen: true }, { stream: 'd2/0' as StreamId, instanceName: 'D2', role: 'decode', tokens: 0, wasChosen: false },
    ],
    confidence: DOUBTFUL, ...part,
  };
}

export function sampleSummary(part: Partial<MissSummary> = {}): MissSummary {
  const requests = (from: number, count: number): MissSummary['causes'][number]['requests'] => Array.from({ length: count }, (_, index) => ({ id: `r${from - index}` as RecordId, n: from - index }));
  return {
    windowS: 300, requests: 412, of: 427, opened: 0, openable: 0, promptTokens: 1_204_511, missedTokens: 650_300,
    unexplained: [{ reason: 'no instance could tokenise the prompt (POST /tokenize: 404)', requests: 12 }, { reason: 'the request had images, whose keys are not known', requests: 3 }],
    causes: [
      { id: 'a', kind: 'diverges', title: 'diverges after 96 tokens: "Current time: 2026-11-20T14:"', tokens: 403_186, share: 0.62, requests: requests(59, 20), requestCount: 311 },
      { id: 'b', kind: 'never-stored', title: 'new text', tokens: 130_060, share: 0.2, requests: requests(40, 9), requestCount: 402 },
      { id: 'c', kind: 'evicted', title: 'evicted on P1, needed again after 4.1 s', tokens: 71_533, share: 0.11, requests: requests(30, 4), requestCount: 44 },
      { id: 'd', kind: 'elsewhere', title: 'held by P1 while P0 was chosen (least-in-flight)', tokens: 39_018, share: 0.06, requests: requests(20, 2), requestCount: 2 },
      { id: 'e', kind: 'partial-block', title: 'last partial block', tokens: 6503, share: 0.01, requests: requests(10, 3), requestCount: 398 },
    ],
    ...part,
  };
}

/** A batch of one BlockStored event in array form, as vLLM sends it, cut short. */
export function sampleFrames(n: number, part: Partial<RawFrames> = {}): RawFrames {
  const payload = `93cb41d9${'ab12ef'.repeat(3)}9197ab426c6f636b53746f72656492cf9f3ac4d1a0000001cf9f3ac4d1a0000002c0dc0020${'cd04d2'.repeat(32)}10c0a3475055c000`;
  return {
    n, stream: 'p0/0' as StreamId, seq: 48_000 + n, receivedAtUnixMs: CACHE_NOW + n * 37,
    frames: [
      { name: 'topic', bytes: 9, hex: '6b762d6576656e7473', isCut: false }, { name: 'sequence', bytes: 8, hex: (48_000 + n).toString(16).padStart(16, '0'), isCut: false },
      { name: 'payload', bytes: 20_812, hex: payload, isCut: true },
    ],
    decoded: `[1763647351.2,[["BlockStored",[11473219867613790209,11473219867613790210],null,[${Array.from({ length: 32 }, (_, index) => 1000 + index).join(',')}],16,null,"GPU",null]],0]`,
    ...part,
  };
}
