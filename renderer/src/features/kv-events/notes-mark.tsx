import { Popover } from '@mantine/core';
import { useState, type ReactElement, type ReactNode } from 'react';
import type { StreamId } from '#shared/ids.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { formatClock, formatCount, formatDateTime } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import classes from './kv-events.module.css';
import { streamNoteWords } from './stream-note-words.ts';

interface NotesMarkProps {
  readonly stream: StreamId;
  /** Of the stream. */
  readonly name: string;
  /** Of the figure. */
  readonly title: string;
  /** The figure. */
  readonly children: ReactNode;
}

/** A figure of a stream that opens what happened to it, and when. */
export function NotesMark({ stream, name, title, children }: NotesMarkProps): ReactElement {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom" width={560}>
      <Popover.Target>
        <button type="button" className={classes.notesMark} onClick={() => setOpen(!isOpen)} title={`${title}. Show when, and what came of it`}>{children}</button>
      </Popover.Target>
      <Popover.Dropdown aria-label={`What happened to ${name}`}>
        <Notes stream={stream} name={name} />
      </Popover.Dropdown>
    </Popover>
  );
}

function Notes({ stream, name }: Pick<NotesMarkProps, 'stream' | 'name'>): ReactElement {
  const { value, error } = usePolledQuery('kv.notes', { stream }, 2000);
  if (error !== undefined) return <Message tone="error">{error.message}</Message>;
  if (value === undefined) return <p className={classes.notesHead}>asking what happened to {name}…</p>;
  const { notes, older } = value;
  return (
    <>
      <p className={classes.notesHead}>
        {notes.length === 0 ? `Nothing happened to ${name} yet` : `What happened to ${name}, newest first`}
        {older > 0 && `; ${formatCount(older, 'older note is', 'older notes are')} not kept`}
      </p>
      <dl className={classes.notes} tabIndex={0}>
        {notes.map((note, index) => {
          const { words, isWarning } = streamNoteWords(note);
          return (
            <div key={notes.length + older - index} style={{ display: 'contents' }}>
              <dt title={formatDateTime(note.atUnixMs)}>{formatClock(note.atUnixMs)}</dt>
              <dd className={isWarning ? classes.warning : undefined}>{words}</dd>
            </div>
          );
        })}
      </dl>
    </>
  );
}
