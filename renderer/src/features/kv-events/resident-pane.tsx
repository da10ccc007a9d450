import { NativeSelect, TextInput } from '@mantine/core';
import { memo, useMemo, type ReactElement } from 'react';
import type { KvBlockView } from '#shared/kv.ts';
import type { ResidentPage } from '#shared/operations.ts';
import { CopyText } from '../../ui/copy-text.tsx';
import { formatClock, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { shortHash } from '../../blocks/short-hash.ts';
import { tokenIds } from '../../blocks/token-words.ts';
import { residentWords } from './stream-strip.tsx';
import { residentInput, useResidentBlocks, type ResidentQuery } from './use-resident-blocks.ts';
import classes from './kv-events.module.css';

export interface ResidentPaneProps {
  readonly query: ResidentQuery;
  readonly onQuery: (query: ResidentQuery) => void;
}

/** What the streams say is in the caches now, counted in full and listed in part. */
export function ResidentPane({ query, onQuery }: ResidentPaneProps): ReactElement {
  const { value: page, error } = useResidentBlocks(query);
  const media = useMemo(() => [...new Set(page?.byStream.flatMap((stream) => stream.resident.map((count) => count.medium)))].sort(), [page]);
  const isBadHash = residentInput(query) === undefined;
  return (
    <div className={classes.body}>
      <div className={classes.queryRow}>
        <NativeSelect
          aria-label="Stream"
          value={query.stream}
          onChange={(event) => onQuery({ ...query, stream: event.currentTarget.value })}
          data={[{ value: '', label: 'all streams' }, ...(page?.byStream ?? []).map(({ stream, instanceName }) => ({ value: stream, label: `${instanceName}/${stream.slice(stream.lastIndexOf('/') + 1)}` }))]}
        />
        <NativeSelect
          aria-label="Medium"
          value={query.medium}
          onChange={(event) => onQuery({ ...query, medium: event.currentTarget.value })}
          data={[{ value: '', label: 'all media' }, ...new Set([...media, ...(query.medium === '' ? [] : [query.medium])])]}
        />
        <TextInput
          className={classes.hashField ?? ''}
          aria-label="Beginning of the block hash, hex"
          placeholder="hash begins with"
          value={query.hash}
          error={isBadHash}
          onChange={(event) => onQuery({ ...query, hash: event.currentTarget.value })}
          classNames={{ input: classes.mono ?? '' }}
        />
        <span className={classes.dim}>{isBadHash ? 'A hash is hex: 0-9 and a-f.' : countWords(page)}</span>
      </div>
      {error !== undefined && <Message tone="error">{error.message}</Message>}
      {page !== undefined && page.byStream.length === 0 && <p className={classes.dim}>Which blocks are resident is known from KV events, and no stream is followed.</p>}
      {page !== undefined && page.byStream.length > 0 && (
        <div className={classes.columns}>
          <CountTable page={page} />
          <BlockTable blocks={page.blocks} />
        </div>
      )}
    </div>
  );
}

function countWords(page: ResidentPage | undefined): string {
  if (page === undefined) return 'Asking the engine …';
  const { blocks, matching, total, evicted } = page;
  const untracked = evicted === 0 ? '' : ` · ▲ ${formatInteger(evicted)} not tracked because the table was full`;
  return `listed ${formatInteger(blocks.length)} · matching ${formatInteger(matching)} of ${formatInteger(total)} resident${untracked}`;
}

function CountTable({ page }: { readonly page: ResidentPage }): ReactElement {
  return (
    <table className={classes.streams}>
      <caption>Resident by stream</caption>
      <thead>
        <tr><th scope="col">stream</th><th scope="col">blocks</th></tr>
      </thead>
      <tbody>
        {page.byStream.map(({ stream, instanceName, resident }) => (
          <tr key={stream}>
            <th scope="row">{instanceName}/{stream.slice(stream.lastIndexOf('/') + 1)}</th>
            <td>{residentWords(resident)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const BlockTable = memo(function BlockTable({ blocks }: { readonly blocks: readonly KvBlockView[] }): ReactElement {
  if (blocks.length === 0) return <p className={classes.dim}>No block matches.</p>;
  return (
    <table className={classes.streams}>
      <caption>Blocks</caption>
      <thead>
        <tr>
          <th scope="col">hash</th><th scope="col">parent</th><th scope="col">on</th><th scope="col">medium</th>
          <th scope="col" data-align="end" title="Stores minus removals; vLLM does not deduplicate physical blocks">copies</th>
          <th scope="col" data-align="end">stores</th><th scope="col">stored</th><th scope="col">token ids</th>
        </tr>
      </thead>
      <tbody>
        {/* By place: in a flood all blocks are others at each answer, and elements filled anew cost less than new ones. */}
        {blocks.map((block, index) => (
          <tr key={index}>
            <th scope="row" className={classes.mono}><CopyText text={block.hash} label="block hash" /></th>
            <td className={classes.mono} title={block.parent}>{block.parent === undefined ? '—' : shortHash(block.parent)}</td>
            <td>{block.instanceName}</td>
            <td>{block.medium}</td>
            <td data-align="end">{formatInteger(block.copies)}</td>
            <td data-align="end">{formatInteger(block.stores)}</td>
            <td className={classes.mono} title={formatDateTime(block.storedAtUnixMs)}>{formatClock(block.storedAtUnixMs)}</td>
            <td className={classes.mono}>{block.tokens === undefined ? '—' : tokenIds(block.tokens, 6)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
});
