import { spotlight } from '@mantine/spotlight';
import type { ReactElement } from 'react';
import { useEngineState, useIsStale } from '../stores/engine-context.tsx';
import { CopyText } from '../ui/copy-text.tsx';
import { ABSENT, formatBytes, formatCount, formatDuration, formatInteger, formatRate } from '../ui/format.ts';
import { keyNames } from './hotkeys.tsx';
import classes from './shell.module.css';

/** The line at the bottom: where clients connect, what flows, what was lost, what pdscope itself costs. */
export function StatusBar(): ReactElement {
  const engine = useEngineState();
  const isStale = useIsStale();
  if (engine === undefined) return <footer className={classes.status} aria-label="Status" />;

  const live = engine.streams.filter((stream) => stream.state === 'live' || stream.state === 'silent').length;
  const found = engine.streams.reduce((sum, stream) => sum + stream.gaps, 0);
  const open = engine.streams.reduce((sum, stream) => sum + stream.gaps - (stream.gapsFilled ?? 0), 0);
  const lost =
    engine.telemetryDropped +
    engine.rings.requests.dropped +
    engine.rings.kv.dropped +
    engine.streams.reduce((sum, stream) => sum + stream.droppedMessages, 0);

  return (
    <footer className={classes.status} aria-label="Status" data-stale={isStale}>
      <span>
        proxy {engine.proxyUrl === undefined ? <b className={classes.statusError}>✕ not listening</b> : <CopyText text={engine.proxyUrl} label="base URL" />}
      </span>
      <span title="Connector and scheduling policy of new requests">
        {engine.connector} · {engine.policy}
      </span>
      <span className={classes.statusRate} title="Requests received, last 10 s">
        <b>{formatRate(engine.totals.requestsPerSecond)}</b> req/s
      </span>
      <span className={classes.statusRate} title="Output chunks over all decode legs; vLLM sends about one token in each">
        <b>{formatRate(engine.totals.chunksPerSecond)}</b> chunks/s
      </span>
      <span title="KV-event streams: connected of configured">
        streams <b className={live < engine.streams.length ? classes.statusWarning : undefined}>{engine.streams.length === 0 ? ABSENT : `${live < engine.streams.length ? '▲ ' : ''}${live}/${engine.streams.length}`}</b>
        {open > 0 && <span className={classes.statusWarning}> ▲ {formatCount(open, 'gap')}</span>}
        {open === 0 && found > 0 && <span> {formatCount(found, 'gap')} filled</span>}
      </span>
      <span title="Telemetry samples, rows and event messages left out to protect tokens">
        dropped <b className={lost > 0 ? classes.statusWarning : undefined}>{formatInteger(lost)}</b>
      </span>
      {engine.isCapturing && (
        <span className={classes.statusWarning} title="Bodies of new requests are kept, cut when long. Switch it off in a request's Hops, or in the palette.">
          ● capturing bodies
        </span>
      )}
      <span className={classes.statusEnd}>
        <span title={`Event-loop delay p99 ${formatDuration(engine.process.loopDelayP99Ms)} · heap ${formatBytes(engine.process.heapBytes)}`}>
          {isStale && 'last known: '}engine {formatBytes(engine.process.rssBytes)} · {Math.round(engine.process.cpu * 100)} % of a core
        </span>
        <button type="button" className={classes.quietButton} onClick={() => spotlight.open()} title="Command palette">
          {keyNames('mod+K').join('+')}
        </button>
      </span>
    </footer>
  );
}
