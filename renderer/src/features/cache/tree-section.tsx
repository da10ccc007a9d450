/** The prefix tree over all instances: what hangs together, who holds it, how often it is used again. */
import { Button, NativeSelect, SegmentedControl } from '@mantine/core';
import { useCallback, useMemo, type ReactElement } from 'react';
import { parseBlockRef, type BlockRef } from '../../blocks/block-ref.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCount, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { readUrlList, writeUrlList } from '../../url/url-list.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { NoCache } from './no-cache.tsx';
import { SearchResults } from './search-results.tsx';
import { TreeHead } from './tree-line.tsx';
import { TOP, treeLines, widestOf } from './tree-lines.ts';
import { TreeList } from './tree-list.tsx';
import { readTreeQuery } from './tree-search.ts';
import { TreeSearchBox } from './tree-search-box.tsx';
import { useTreePages, type TreeOptions } from './use-tree-pages.ts';
import classes from './cache.module.css';

const ORDERS = ['blocks', 'reuse', 'recent'] as const satisfies readonly TreeOptions['orderBy'][];
/** Nodes open at once; each is a question every three seconds. */
const MOST_OPEN = 48;

export function TreeSection({ onOpen }: { readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  const [url, setUrl] = useUrlState();
  const toTrust = useTrustOf();
  // In the order of opening. Numbers of the index: those it forgot meanwhile open nothing.
  const open = useMemo(() => new Set(readUrlList(url.open).filter((name) => /^\d{1,15}$/u.test(name)).map(Number).slice(-MOST_OPEN)), [url.open]);
  const order = ORDERS.find((one) => one === url.metric) ?? 'blocks';
  const instances = useEngineSelector((engine) => engine?.instances.filter(({ streams }) => streams.length > 0).map(({ id, name }) => `${id} ${name}`).join('\n') ?? '');
  const choices = instances.split('\n').filter((line) => line !== '').map((line) => line.split(' '));
  const nowUnixMs = useEngineSelector((engine) => Math.ceil((engine?.nowUnixMs ?? 0) / 1000) * 1000);
  const scope = choices.find(([id]) => id === url.scope)?.[0];
  const pages = useTreePages({ orderBy: order, ...(scope !== undefined && { instance: scope }) }, open);
  const top = pages.get(TOP);
  const query = readTreeQuery(url.filter);
  const block = parseBlockRef(url.selection);
  const picked = block !== undefined && 'node' in block ? block.node : undefined;
  const show = useCallback((node: number) => onOpen({ node }), [onOpen]);
  const toggle = (node: number, isOpen: boolean): void => {
    const names = [...open].filter((one) => one !== node).map(String);
    // The oldest closes when too many are open.
    setUrl({ open: writeUrlList(isOpen ? [...names, String(node)].slice(-MOST_OPEN) : names) });
  };
  const page = top?.page;
  return (
    <div className={classes.fill}>
      <div className={classes.toolbar}>
        <TreeSearchBox value={url.filter} onChange={(filter) => setUrl({ filter })} />
        <NativeSelect aria-label="Held by" value={scope ?? ''} onChange={(event) => setUrl({ scope: event.currentTarget.value })} data={[{ value: '', label: 'held by anyone' }, ...choices.map(([id = '', name = id]) => ({ value: id, label: `held by ${name}` }))]} />
        <SegmentedControl aria-label="Order" value={order} data={[...ORDERS]} onChange={(next) => setUrl({ metric: next === 'blocks' ? '' : next })} />
        <Button onClick={() => setUrl({ open: '' })} disabled={open.size === 0}>close all</Button>
        {page !== undefined && (
          <span className={classes.toolbarEnd}>
            <span title="Blocks in the index, of those it may hold">{formatInteger(page.totalNodes)} <span className={classes.dim}>of {formatCount(page.capacity, 'block')}</span></span>
            {page.evicted > 0 && <span className={classes.warning} title="Forgotten by the index because it was full; the engines may still hold them">▲ {formatInteger(page.evicted)} forgotten</span>}
            <TrustMark trust={toTrust(page.confidence)} isLong />
          </span>
        )}
      </div>
      {top?.error !== undefined && <div className={classes.notice}><Message tone={page === undefined ? 'error' : 'warning'}>{page === undefined ? top.error : `Shown as last seen: ${top.error}`}</Message></div>}
      {query !== undefined ? (
        <SearchResults query={query} nowUnixMs={nowUnixMs} picked={picked} onShow={show} onClear={() => setUrl({ filter: '' })} />
      ) : page?.children.length === 0 ? (
        scope === undefined ? <NoCache /> : (
          <EmptyState title="The narrowing hides everything" text={`No indexed block is held by ${choices.find(([id]) => id === scope)?.[1] ?? scope}; the whole index has ${formatCount(page.totalNodes, 'block')}.`}>
            <div><Button onClick={() => setUrl({ scope: '' })}>Show all instances</Button></div>
          </EmptyState>
        )
      ) : top?.error === undefined || page !== undefined ? (
        <>
          <TreeHead />
          <TreeList label="Prefix tree" lines={treeLines(pages, open)} widest={widestOf(pages)} nowUnixMs={nowUnixMs} picked={picked} onShow={show} onToggle={toggle} />
        </>
      ) : undefined}
    </div>
  );
}
