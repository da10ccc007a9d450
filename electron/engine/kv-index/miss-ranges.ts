/** Explanations as the page and the command line show them: ranges of a prompt with words, values and evidence. */
import type { BlockName, MissRange, NodeHolder } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import type { BlockKey, BlockVerdict, Divergence, Explanation, ExplainRange, LostRange, NodeId } from './answers.ts';

export interface RangeNames {
  /** A stream as a holder of blocks; undefined when it is gone. */
  readonly holderOf: (stream: StreamId) => NodeHolder | undefined;
  /** What streams call a block; none when it is forgotten. */
  readonly namesOf: (node: NodeId) => readonly BlockName[];
}

/** Tokens shown before the first that differs. */
const LEAD_TOKENS = 8;
const SHOWN_TOKENS = 32;

/**
 * An explanation's ranges, in order. Blocks that are resident but of no use, since one before them was missing, count
 * under the cause of that one.
 */
export function missRanges(explanation: Explanation, names: RangeNames): MissRange[] {
  const ranges: MissRange[] = [];
  let cause: MissRange | undefined;
  for (const range of explanation.ranges) {
    const made = toRange(range, explanation, { ...names, cause });
    ranges.push(made);
    if (made.kind !== 'hit') cause ??= made;
  }
  return ranges;
}

function toRange(range: ExplainRange, explanation: Explanation, names: RangeNames & { readonly cause: MissRange | undefined }): MissRange {
  const { verdict } = range;
  const place = { fromBlock: range.fromBlock, toBlock: Math.max(range.fromBlock, range.toBlock - 1), tokens: range.toToken - range.fromToken };
  const holders = (streams: readonly StreamId[]): NodeHolder[] => streams.map((stream) => names.holderOf(stream)).filter((holder) => holder !== undefined);
  const elsewhere = (streams: readonly StreamId[]): { readonly elsewhere?: readonly NodeHolder[] } => (streams.length === 0 ? {} : { elsewhere: holders(streams) });
  const gapOf = (lost: LostRange | undefined): Pick<MissRange, 'gap'> => (lost === undefined ? {} : { gap: { stream: explanation.stream, fromSeq: lost.from, toSeq: lost.to } });
  const ago = (unixMs: number): string => (explanation.atUnixMs === undefined ? `at ${new Date(unixMs).toISOString()}` : `${seconds(explanation.atUnixMs - unixMs)} before`);
  // By its hash where the verdict found it, so that a link to it asks there.
  const block = (node: NodeId | undefined, on: readonly StreamId[] = [explanation.stream]): Pick<MissRange, 'block'> => {
    const known = node === undefined ? [] : names.namesOf(node);
    const named = known.find(({ stream }) => on.includes(stream)) ?? known[0];
    return named === undefined ? {} : { block: named };
  };
  const divergence = (at: Divergence | undefined): Pick<MissRange, 'diverges' | 'block'> => (at === undefined ? {} : { diverges: sides(at), ...block(at.node) });
  switch (verdict.kind) {
    case 'hit':
      return { kind: 'hit', ...place, message: `resident on ${verdict.media.join(', ')}${doubt(verdict.lost, 'its removal may have been missed')}`, ...gapOf(verdict.lost) };
    case 'unreachable':
      return {
        kind: names.cause?.kind ?? 'unknown', ...place,
        message: `resident on ${verdict.media.join(', ')}, but of no use: block ${names.cause?.fromBlock ?? 0} before it was missing`,
      };
    case 'never_stored': {
      const since = verdict.sinceUnixMs === undefined ? '' : `; blocks that went up to ${ago(verdict.sinceUnixMs)} may be forgotten`;
      return { kind: 'never-stored', ...place, message: `never seen stored on this instance${since}`, ...divergence(verdict.nearest) };
    }
    case 'evicted': {
      const by = verdict.displacedBy;
      const when = verdict.fromUnixMs === verdict.toUnixMs ? ago(verdict.fromUnixMs) : `from ${ago(verdict.fromUnixMs)} on`;
      return {
        kind: 'evicted', ...place, ...block(verdict.node), ...elsewhere(verdict.alsoOn), ...gapOf(verdict.lost), evictedAtUnixMs: verdict.fromUnixMs,
        message: `evicted ${when}${by === undefined ? '' : `, displaced by block ${by.hash}`}${doubt(verdict.lost, 'it may have been stored again unseen')}`,
        ...(by?.node !== undefined && { displacedBy: by.node }),
      };
    }
    case 'elsewhere':
      return { kind: 'elsewhere', ...place, ...block(verdict.node, verdict.streams), ...elsewhere(verdict.streams), message: `never stored here, but on ${holders(verdict.streams).map((holder) => holder.instanceName).join(', ')}` };
    case 'diverges': {
      const at = verdict.divergence;
      const same = at.sameAfter === 0 ? '' : `; the next ${at.sameAfter === 1 ? 'block' : `${at.sameAfter} blocks`} would have matched again`;
      return {
        kind: 'diverges', ...place, ...divergence(at),
        message: `differs from the nearest block held here from token ${at.position} on (block ${at.block}, token ${at.token} of it)${same}`,
      };
    }
    case 'other_key': return { kind: 'other-key', ...place, ...otherKey(verdict), ...block(verdict.node) };
    case 'partial_block':
      return { kind: 'partial-block', ...place, message: 'never reusable: not a whole block, or the end of the prompt, of which at least one token is computed' };
    case 'reset':
      return {
        kind: 'reset', ...place, ...elsewhere(verdict.alsoOn),
        message: `gone ${ago(verdict.atUnixMs)}: ${verdict.reason === 'restart' ? 'the engine restarted' : verdict.reason === 'cleared' ? 'the prefix cache was cleared' : 'its events were no longer watched'}`,
      };
    case 'unknown':
      return { kind: 'unknown', ...place, ...elsewhere(verdict.alsoOn), ...gapOf(verdict.lost), ...divergence(verdict.nearest), message: unknownText(verdict) };
  }
  return verdict;
}

/** Both sides from a little before the first difference. */
function sides(divergence: Divergence): NonNullable<MissRange['diverges']> {
  const from = Math.max(0, divergence.token - LEAD_TOKENS);
  return {
    block: divergence.block,
    token: divergence.position,
    asked: { tokens: divergence.expected.slice(from, from + SHOWN_TOKENS) },
    held: { tokens: divergence.found.slice(from, from + SHOWN_TOKENS) },
  };
}

function otherKey({ parts, expected, found, blocks }: Extract<BlockVerdict, { kind: 'other_key' }>): Pick<MissRange, 'message' | 'key'> {
  const [part] = parts;
  const what = part === 'salt' || part === 'lora' || part === 'media' ? part : 'other';
  const name = { salt: 'cache salt', lora: 'LoRA adapter', media: 'media', other: 'key' }[what];
  const asked = partText(expected, what);
  const held = partText(found, what);
  return {
    message: `the same tokens are held under another ${name} (${held ?? 'none'} instead of ${asked ?? 'none'}); ${blocks} block${blocks === 1 ? '' : 's'} would have matched`,
    key: { what, ...(asked !== undefined && { asked }), ...(held !== undefined && { held }) },
  };
}

function partText(key: BlockKey, what: 'salt' | 'lora' | 'media' | 'other'): string | undefined {
  switch (what) {
    case 'salt': return key.salt;
    case 'lora': return key.lora;
    case 'media': return key.media?.map(([identifier]) => identifier).join(', ');
    case 'other': return key.embeds ?? key.other?.join(', ');
  }
  return what;
}

function unknownText({ reason, lost }: Extract<BlockVerdict, { kind: 'unknown' }>): string {
  switch (reason) {
    case 'lost':
      if (lost?.cause === 'late_attach') return 'not known: what the engine stored before pdscope attached was not seen';
      return `not known: ${missing(lost)}`;
    case 'unplaced': return 'not known: the instance holds blocks whose content was never told';
    case 'forgotten': return 'not known: the index had no room for it';
    case 'past': return 'not known: that is longer ago than the index remembers; blocks that went since then are forgotten';
    case 'detached': return "not known: the instance's events are not watched";
    case 'no_blocks': return 'not known: the instance never published a block with tokens';
  }
  return reason;
}

function doubt(lost: LostRange | undefined, words: string): string {
  return lost === undefined ? '' : `; ${missing(lost)}, so ${words}`;
}

function missing(lost: LostRange | undefined): string {
  if (lost === undefined) return 'batches are missing';
  return lost.from === lost.to ? `batch ${lost.from} is missing` : `batches ${lost.from} to ${lost.to} are missing`;
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}
