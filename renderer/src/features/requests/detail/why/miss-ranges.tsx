import type { ReactElement } from 'react';
import type { MissRange } from '#shared/cache.ts';
import { BlockLink } from '../../../../blocks/block-link.tsx';
import { HolderList } from '../../../../blocks/holder-list.tsx';
import { MISS_LOOK } from '../../../../blocks/miss-kinds.ts';
import { MissSwatch } from '../../../../blocks/miss-pattern.tsx';
import { shortHash } from '../../../../blocks/short-hash.ts';
import { formatClock, formatCount, formatDateTime, formatInteger } from '../../../../ui/format.ts';
import { ViewLink } from '../../../../ui/view-link.tsx';
import { blockSpan } from './miss-bar-layout.ts';
import { Divergence } from './divergence.tsx';
import classes from './why.module.css';

/** What stands before the link to the block that a verdict is about. */
const BLOCK_WORDS: Partial<Readonly<Record<MissRange['kind'], string>>> = {
  diverges: 'block held there', elsewhere: 'the first of them', evicted: 'the first that went', 'other-key': 'the first under that key',
  'never-stored': 'nearest block known', unknown: 'nearest block known',
};

/** Every range with its verdict in words and what it rests on. */
export function MissRanges({ ranges }: { readonly ranges: readonly MissRange[] }): ReactElement {
  return (
    <ol className={classes.ranges} aria-label="Ranges of the prompt">
      {ranges.map((range) => (
        <li key={range.fromBlock} className={classes.range}>
          <span className={classes.verdict} title={MISS_LOOK[range.kind].meaning}><MissSwatch kind={range.kind} /> {MISS_LOOK[range.kind].label}</span>
          <span className={classes.span}>{blockSpan(range)}</span>
          <span className={classes.count}>{formatCount(range.tokens, 'token')}</span>
          <div className={classes.evidence}>
            <p>{range.message}</p>
            <Evidence range={range} />
          </div>
        </li>
      ))}
    </ol>
  );
}

function Evidence({ range }: { readonly range: MissRange }): ReactElement | undefined {
  const { evictedAtUnixMs, displacedBy, elsewhere, diverges, key, gap, block } = range;
  const facts: ReactElement[] = [];
  if (evictedAtUnixMs !== undefined) facts.push(<span key="at">evicted <span className={classes.mono} title={formatDateTime(evictedAtUnixMs)}>{formatClock(evictedAtUnixMs)}</span></span>);
  if (displacedBy !== undefined) {
    facts.push(<span key="by">displaced by <BlockLink block={{ node: displacedBy }} title="Show the block that was stored next in that stream">block #{displacedBy}</BlockLink></span>);
  }
  if (elsewhere !== undefined && elsewhere.length > 0) facts.push(<span key="elsewhere" className={classes.where}>then held by <HolderList holders={elsewhere} most={8} /></span>);
  if (block !== undefined) facts.push(<span key="block">{BLOCK_WORDS[range.kind] ?? 'known as'} <BlockLink block={block} title="Its content, who holds it and who held it"><span className={classes.mono}>{shortHash(block.hash)}</span> on {block.instanceName}</BlockLink></span>);
  if (key !== undefined) facts.push(<span key="key">{key.what}: asked <code>{key.asked ?? 'none'}</code>, held under <code>{key.held ?? 'none'}</code></span>);
  if (gap !== undefined) {
    facts.push(
      <span key="gap">
        <ViewLink to={{ view: 'kv-events', filter: `stream:${gap.stream} type:gap,filled,lost`, selection: '' }} title="Show the gaps of this stream, and what came of them">gap in {gap.stream}</ViewLink>, {gap.fromSeq === gap.toSeq ? `batch ${formatInteger(gap.fromSeq)}` : `batches ${formatInteger(gap.fromSeq)} to ${formatInteger(gap.toSeq)}`}
      </span>,
    );
  }
  if (facts.length === 0 && diverges === undefined) return undefined;
  return (
    <>
      {facts.length > 0 && <p className={classes.facts}>{facts}</p>}
      {diverges !== undefined && <Divergence at={diverges} />}
    </>
  );
}
