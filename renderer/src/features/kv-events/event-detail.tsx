import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { KvRow } from '#shared/kv.ts';
import { CopyText } from '../../ui/copy-text.tsx';
import { Facts } from '../../ui/facts.tsx';
import { formatClockGap, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { isNoteKind, KIND_SIGN, staleWords } from './kv-words.ts';
import classes from './kv-events.module.css';

export interface EventDetailProps {
  readonly row: KvRow;
  /** The engine no longer keeps it. */
  readonly isGone: boolean;
  /** Of its stream; absent when the stream is gone. */
  readonly currentEpoch: number | undefined;
  readonly onFilter: (filter: string) => void;
  readonly onBlock: () => void;
  readonly onResident: (hash: string) => void;
}

/** Everything recorded about one event. */
export function EventDetail({ row, isGone, currentEpoch, onFilter, onBlock, onResident }: EventDetailProps): ReactElement {
  const [first] = row.hashes;
  const lagMs = row.engineTsUnixMs === undefined ? undefined : row.receivedAtUnixMs - row.engineTsUnixMs;
  return (
    <div className={classes.body}>
      <div className={classes.eventHead}>
        <h2 className={classes.eventTitle}>
          {KIND_SIGN[row.kind]} {row.kind} on {row.instanceName}/{row.rank}
        </h2>
        {first !== undefined && (
          <>
            <Button onClick={onBlock}>Block detail</Button>
            <Button onClick={() => onFilter(`hash:${first}`)}>Events of this block</Button>
            <Button onClick={() => onResident(first)}>Who holds it</Button>
          </>
        )}
        <Button onClick={() => onFilter(`stream:${row.stream}`)}>Only this stream</Button>
        {(row.kind === 'gap' || row.kind === 'filled' || row.kind === 'lost') && <Button onClick={() => onFilter(`stream:${row.stream} type:gap,filled,lost`)} title="Every hole in the sequence of this stream, and whether a replay filled it">What came of its gaps</Button>}
        {isGone && <span className={classes.dim}>No longer kept by the engine; shown from this page’s memory.</span>}
      </div>
      {row.note !== undefined && <Message tone={row.kind === 'error' ? 'error' : isNoteKind(row.kind) ? 'warning' : 'plain'}>{row.note}</Message>}
      <div className={classes.columns}>
        <Facts
          facts={[
            ['number', formatInteger(row.n)],
            ['sequence number', row.seq === undefined ? undefined : String(row.seq)],
            ['epoch', staleWords(row.epoch, currentEpoch) ?? String(row.epoch)],
            ['engine time', row.engineTsUnixMs !== undefined ? formatDateTime(row.engineTsUnixMs) : isNoteKind(row.kind) ? undefined : 'not told: its batch’s timestamp is no time'],
            ['received', `${formatDateTime(row.receivedAtUnixMs)}${lagMs === undefined ? '' : ` (${formatClockGap(Math.abs(lagMs))} ${lagMs < 0 ? 'earlier' : 'later'}, by two clocks)`}`],
            ['medium', row.medium],
            ['cache group', row.groupIdx === undefined ? undefined : String(row.groupIdx)],
            ['cache spec', row.specKind],
            ['sliding window', row.slidingWindow === undefined ? undefined : formatInteger(row.slidingWindow)],
            ['block size', row.blockSize === undefined ? undefined : `${row.blockSize} tokens`],
            ['LoRA', loraWords(row)],
            ['locality', row.locality],
            ['ownership', row.ownership],
            ['session', row.sessionId],
          ]}
        />
        <Facts
          facts={[
            ['parent', row.parent === undefined ? undefined : <CopyText key="parent" text={row.parent} label="parent hash" />],
            [
              `hashes (${formatInteger(row.hashCount)})`,
              row.hashes.length === 0 ? undefined : (
                <ol className={classes.hashes} key="hashes">
                  {row.hashes.map((hash) => (
                    <li key={hash}><CopyText text={hash} label="block hash" /></li>
                  ))}
                  {row.hashCount > row.hashes.length && <li className={classes.dim}>… {formatInteger(row.hashCount - row.hashes.length)} more, not kept</li>}
                </ol>
              ),
            ],
            [
              `token ids${row.tokenCount === undefined ? '' : ` (${formatInteger(row.tokenCount)})`}`,
              row.tokens === undefined ? undefined : (
                <code key="tokens">
                  {row.tokens.join(', ')}
                  {(row.tokenCount ?? 0) > row.tokens.length && ` … ${formatInteger((row.tokenCount ?? 0) - row.tokens.length)} more, not kept`}
                </code>
              ),
            ],
            ['extra keys', row.extraKeys === undefined ? undefined : <code key="extra">{row.extraKeys}</code>],
          ]}
        />
      </div>
    </div>
  );
}

function loraWords(row: KvRow): string | undefined {
  if (row.loraName !== undefined) return row.loraId === undefined ? row.loraName : `${row.loraName} (${row.loraId})`;
  return row.loraId === undefined ? undefined : `id ${row.loraId}`;
}
