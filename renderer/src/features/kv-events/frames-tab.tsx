/** The message that a row came from, as it came: every frame in hex, and the payload decoded, side by side. */
import { Button } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { useEffect, useMemo, type ReactElement } from 'react';
import type { RawFrames } from '#shared/cache.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { formatBytes, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { hexDump, sequenceOf } from './hex-lines.ts';
import { indentJson } from './indent-json.ts';
import code from '../../ui/code-text.module.css';
import classes from './frames.module.css';

export function FramesTab({ n }: { readonly n: number }): ReactElement {
  const { run, value, error } = useOperation('kv.frames');
  useEffect(() => void run({ n }), [run, n]);
  const frames = value?.n === n ? value : undefined;
  if (frames === undefined) {
    return <div className={classes.body}>{error === undefined ? <p className={classes.dim}>Asking for the frames …</p> : <Message tone="error">{error.message}</Message>}</div>;
  }
  return <Frames raw={frames} />;
}

function Frames({ raw }: { readonly raw: RawFrames }): ReactElement {
  const all = raw.frames.reduce((sum, { bytes }) => sum + bytes, 0);
  return (
    <div className={classes.body}>
      <p className={classes.dim}>
        One message of {raw.stream}{raw.seq !== undefined && `, sequence number ${raw.seq}`}, received {formatDateTime(raw.receivedAtUnixMs)}: {raw.frames.length} {raw.frames.length === 1 ? 'frame' : 'frames'}, {formatInteger(all)} bytes. All events of its batch share it.
      </p>
      {raw.problem !== undefined && <Message tone="error">{raw.problem}</Message>}
      {raw.frames.length === 0 && <Message tone="plain">pdscope made this row itself; no message stands behind it.</Message>}
      <div className={classes.columns}>
        <div className={classes.frames}>
          {raw.frames.map((frame, index) => <Frame key={`${index}${frame.name}`} frame={frame} />)}
        </div>
        {raw.frames.length > 0 && <Decoded text={raw.decoded} />}
      </div>
    </div>
  );
}

function Frame({ frame }: { readonly frame: RawFrames['frames'][number] }): ReactElement {
  const clipboard = useClipboard({ timeout: 1200 });
  const dump = useMemo(() => hexDump(frame.hex), [frame.hex]);
  const value = frame.name === 'sequence' ? sequenceOf(frame.hex) : undefined;
  return (
    <section aria-label={`${frame.name} frame`}>
      <div className={classes.head}>
        <h2>{frame.name}</h2>
        <span className={classes.dim}>
          {formatInteger(frame.bytes)} bytes{frame.bytes >= 1024 && ` (${formatBytes(frame.bytes)})`}
          {value !== undefined && ` · big-endian ${value}`}
        </span>
        {frame.isCut && <span className={classes.warning}>▲ cut after {formatInteger(frame.hex.length / 2)}</span>}
        {frame.hex !== '' && <Button onClick={() => clipboard.copy(frame.hex)} aria-label={`copy hex of the ${frame.name} frame`}>{clipboard.copied ? 'copied' : 'copy hex'}</Button>}
      </div>
      {frame.hex === '' ? <p className={classes.dim}>empty</p> : <pre className={`${code.code} ${classes.hex ?? ''}`} tabIndex={0} aria-label={`${frame.name} frame: offset, hex, ASCII`}>{dump}</pre>}
    </section>
  );
}

function Decoded({ text }: { readonly text: string | undefined }): ReactElement {
  const clipboard = useClipboard({ timeout: 1200 });
  const pretty = useMemo(() => (text === undefined ? undefined : indentJson(text)), [text]);
  return (
    <section aria-label="Decoded payload" className={classes.decoded}>
      <div className={classes.head}>
        <h2>decoded</h2>
        <span className={classes.dim}>MessagePack as JSON, bytes as hex</span>
        {pretty !== undefined && <Button onClick={() => clipboard.copy(pretty)} aria-label="Copy the decoded payload">{clipboard.copied ? 'copied' : 'copy'}</Button>}
      </div>
      {pretty === undefined ? <p className={classes.dim}>It could not be decoded.</p> : <pre className={`${code.code} ${classes.hex ?? ''}`} tabIndex={0} aria-label="Decoded payload">{pretty}</pre>}
    </section>
  );
}
