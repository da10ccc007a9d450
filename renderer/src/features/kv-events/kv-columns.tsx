/** The columns of the KV events list. */
import type { ReactElement } from 'react';
import type { KvRow } from '#shared/kv.ts';
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { Column, RowNote } from '../../table/column.ts';
import { ABSENT, formatClock, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Num } from '../../ui/num.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { shortHash } from '../../blocks/short-hash.ts';
import { tokenIds } from '../../blocks/token-words.ts';
import { isNoteKind, KIND_SIGN, noteWords, staleWords } from './kv-words.ts';
import classes from './kv-events.module.css';

/** Tokens in the preview: what fits at 1920 px. */
const PREVIEW_TOKENS = 16;

/** What columns need to know beside the row. */
export interface ColumnContext {
  /** Absent for an instance that left. */
  readonly roleOf: (instance: InstanceId) => Role | undefined;
  /** The current epoch of a stream; absent for one that is gone. */
  readonly epochOf: (stream: StreamId) => number | undefined;
}

export function kvColumns({ roleOf, epochOf }: ColumnContext): readonly Column<KvRow>[] {
  return [
    { id: 'time', header: 'engine time', width: 92, isMono: true, title: 'The publisher’s clock; for rows pdscope made, its own', cell: (row) => <Time row={row} /> },
    {
      id: 'instance', header: 'instance', width: 66,
      cell: (row) => {
        const role = roleOf(row.instance);
        return role === undefined ? row.instanceName : <InstanceName role={role} name={row.instanceName} />;
      },
    },
    { id: 'rank', header: 'rank', width: 34, align: 'end', priority: 4, title: 'Data-parallel rank', cell: (row) => <span className={classes.dim}>{row.rank}</span> },
    { id: 'seq', header: 'seq', width: 64, align: 'end', isMono: true, title: 'Number of the batch in its stream', cell: (row) => <span className={classes.dim}>{row.seq ?? ABSENT}</span> },
    {
      id: 'event', header: 'event', width: 98,
      cell: (row) => {
        const stale = row.kind === 'stored' ? staleWords(row.epoch, epochOf(row.stream)) : undefined;
        return <span className={row.kind === 'removed' || stale !== undefined ? classes.dim : undefined} title={stale}>{KIND_SIGN[row.kind]} {row.kind}{stale !== undefined && ', stale'}</span>;
      },
    },
    { id: 'blocks', header: 'blocks', width: 46, align: 'end', title: 'Block hashes in the event', cell: (row) => (row.kind === 'cleared' ? <span className={classes.dim}>all</span> : <Num value={row.hashCount} format={formatInteger} />) },
    { id: 'hash', header: 'hash ← parent', width: 172, isMono: true, title: 'First block hash of the event and its parent, hex; full on hover and in the detail', cell: (row) => <Hashes row={row} /> },
    { id: 'medium', header: 'medium', width: 58, cell: (row) => row.medium ?? <span className={classes.dim}>{ABSENT}</span> },
    { id: 'group', header: 'group', width: 40, align: 'end', priority: 5, title: 'KV cache group', cell: (row) => <Num value={row.groupIdx} format={String} /> },
    { id: 'lora', header: 'LoRA', width: 80, priority: 6, cell: (row) => <span className={classes.dim}>{row.loraName ?? row.loraId ?? ABSENT}</span> },
    { id: 'count', header: 'tokens', width: 50, align: 'end', priority: 3, title: 'Tokens of the event', cell: (row) => <Num value={row.tokenCount} format={formatInteger} /> },
    {
      id: 'tokens', header: 'token ids', width: 250, grow: 1, isMono: true, title: 'First token ids of the event',
      cell: (row) => <span className={classes.dim}>{row.tokens === undefined ? (row.note ?? '') : tokenIds(row.tokens, PREVIEW_TOKENS)}</span>,
    },
  ];
}

/** Gaps, restarts and errors run across the row. */
export function kvNote(row: KvRow): RowNote | undefined {
  if (!isNoteKind(row.kind)) return undefined;
  return { fromColumn: 'seq', content: noteWords(row), tone: row.kind === 'error' ? 'error' : row.kind === 'filled' ? 'quiet' : 'warning' };
}

function Time({ row }: { readonly row: KvRow }): ReactElement {
  const atUnixMs = row.engineTsUnixMs ?? row.receivedAtUnixMs;
  const title = row.engineTsUnixMs === undefined
    ? `pdscope’s clock: ${formatDateTime(row.receivedAtUnixMs)}`
    : `published ${formatDateTime(row.engineTsUnixMs)}, received ${formatDateTime(row.receivedAtUnixMs)}`;
  return <span className={classes.dim} title={title}>{formatClock(atUnixMs)}</span>;
}

function Hashes({ row }: { readonly row: KvRow }): ReactElement {
  const [first] = row.hashes;
  if (first === undefined) return <span className={classes.dim}>{ABSENT}</span>;
  const title = `${row.hashes.join('\n')}${row.hashCount > row.hashes.length ? `\n… ${row.hashCount - row.hashes.length} more` : ''}${row.parent === undefined ? '' : `\nparent ${row.parent}`}`;
  return (
    <span title={title}>
      {shortHash(first)}
      {row.parent !== undefined && <span className={classes.dim}> ← {shortHash(row.parent)}</span>}
    </span>
  );
}
