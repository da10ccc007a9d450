import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatInteger, formatPercent } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { TreeHead } from './tree-line.tsx';
import { wholeOf, type TreeLine } from './tree-lines.ts';
import { TreeList } from './tree-list.tsx';
import type { TreeQuery } from './tree-search.ts';
import classes from './cache.module.css';

const REFRESH_MS = 5000;

export interface SearchResultsProps {
  readonly query: TreeQuery;
  readonly nowUnixMs: number;
  readonly picked: number | undefined;
  readonly onShow: (node: number) => void;
  readonly onClear: () => void;
}

/** Who holds a prefix: how much of it is indexed, and the runs that match. */
export function SearchResults({ query, nowUnixMs, picked, onShow, onClear }: SearchResultsProps): ReactElement {
  const toTrust = useTrustOf();
  const { value, error } = usePolledQuery('cache.search', query.input, REFRESH_MS);
  if (value === undefined) return <div className={classes.notice}>{error === undefined ? `Searching: ${query.reading} …` : <Message tone="error">{error.message}</Message>}</div>;
  if (value.matches.length === 0) {
    return (
      <EmptyState title="Nothing held begins like this, or has it inside" text={`Read as ${query.reading}: ${formatInteger(value.askedTokens)} ${value.askedTokens === 1 ? 'token' : 'tokens'}. Only whole blocks are held: the end of a prompt is not. Tokenizers cut words by what stands around them, so try more words, or start at the beginning of the prompt as the engine sees it, chat template included.`}>
        <div><TrustMark trust={toTrust(value.confidence)} isLong /></div>
        <div><Button onClick={onClear}>Clear the search</Button></div>
      </EmptyState>
    );
  }
  const lines = value.matches.map((node, index): TreeLine => ({ kind: 'node', key: `s${node.node}`, node, level: 1, isOpen: false, parent: -1, place: index + 1, siblings: value.matches.length }));
  return (
    <>
      <p className={classes.reading}>
        Read as {query.reading} · {formatInteger(value.matchedTokens)} of {formatInteger(value.askedTokens)} tokens {value.isInside === true ? 'found inside prompts; each line starts with the block in which they begin' : 'indexed'}{value.askedTokens > 0 && ` (${formatPercent(value.matchedTokens / value.askedTokens)} %)`}
        {' '}<TrustMark trust={toTrust(value.confidence)} isLong />
        {error !== undefined && <span className={classes.warning}> · ▲ shown as last seen: {error.message}</span>}
      </p>
      <TreeHead />
      <TreeList label="Matching runs" lines={lines} widest={Math.max(1, ...value.matches.map(wholeOf))} nowUnixMs={nowUnixMs} picked={picked} isFlat onShow={onShow} onToggle={() => undefined} />
    </>
  );
}
