import type { ReactElement } from 'react';
import type { FindingsSummary } from '#shared/findings.ts';
import type { EngineState } from '#shared/state.ts';
import { VIEWS, VIEW_TITLES } from '#shared/views.ts';
import { useEngineSelector } from '../stores/engine-context.tsx';
import { useConnection } from '../transport/transport-context.tsx';
import type { ConnectionState } from '../transport/transport.ts';
import { formatCompact, formatRate, formatWholePercent } from '../ui/format.ts';
import { SEVERITY_SHAPE } from '../ui/severity-mark.tsx';
import { StateMark, type Tone } from '../ui/state-mark.tsx';
import { formatHash, switchView } from '../url/url-state.ts';
import { useUrlState } from '../url/use-url-state.ts';
import classes from './shell.module.css';
import { ThemeSwitch } from './theme-switch.tsx';

/** Views with their live figures, the simulated mark, the connection. */
export function LeftRail(): ReactElement {
  const [url, setUrl] = useUrlState();
  const figures = useEngineSelector((engine) => ({
    requests: engine === undefined ? undefined : formatCompact(engine.rings.requests.total),
    'kv-events': engine === undefined || engine.streams.length === 0 ? undefined : `${formatRate(engine.totals.kvEventsPerSecond)}/s`,
    cache: engine === undefined ? undefined : cachedShare(engine),
    instances: engine === undefined ? undefined : formatCompact(engine.instances.length),
    findings: engine === undefined ? undefined : openFindings(engine.findings),
    findingsTone: engine === undefined ? undefined : findingsTone(engine.findings),
    overview: undefined,
    isSimulated: engine !== undefined && (engine.simulation !== undefined || engine.instances.some((instance) => instance.isSimulated)),
  }));

  return (
    <nav className={classes.rail} aria-label="Views">
      <div className={classes.brand}>
        <strong>pdscope</strong> <span className={classes.brandRest}>P/D</span>
      </div>
      <ul className={classes.railList}>
        {VIEWS.map((view) => (
          <li key={view}>
            <a
              className={classes.railLink}
              href={formatHash(switchView(url, view, undefined))}
              aria-current={url.view === view ? 'page' : undefined}
              onClick={(event) => {
                if (event.metaKey || event.ctrlKey || event.shiftKey) return;
                event.preventDefault();
                setUrl({ view });
              }}
            >
              <span>{VIEW_TITLES[view]}</span>
              <span className={classes.railFigure} data-tone={view === 'findings' ? figures.findingsTone : undefined}>{figures[view]}</span>
            </a>
          </li>
        ))}
      </ul>
      {figures.isSimulated && (
        <div className={classes.simulated} title="The instances and their traffic come from pdscope's own simulator; the sockets are real.">
          Simulated cluster
        </div>
      )}
      <div className={classes.railFoot}>
        <ConnectionMark />
        <ThemeSwitch />
      </div>
    </nav>
  );
}

/** Share of prompt tokens that prefill reported as cached, last five minutes; nothing when none was reported. */
function cachedShare({ promptTokens5m, cachedTokens5m }: EngineState): string | undefined {
  return promptTokens5m === undefined || promptTokens5m === 0 || cachedTokens5m === undefined ? undefined : `${formatWholePercent(cachedTokens5m / promptTokens5m)} %`;
}

/** Errors and warnings that nobody dismissed, with the shape of the worst; nothing when there are none: quiet is good. */
function openFindings(summary: FindingsSummary): string | undefined {
  const tone = findingsTone(summary);
  return tone === undefined ? undefined : `${SEVERITY_SHAPE[tone]} ${formatCompact(summary.open.error + summary.open.warning)}`;
}

function findingsTone({ open }: FindingsSummary): 'error' | 'warning' | undefined {
  if (open.error > 0) return 'error';
  return open.warning > 0 ? 'warning' : undefined;
}

const PHASE_MARKS: Readonly<Record<ConnectionState['phase'], readonly [Tone, string]>> = {
  open: ['ok', 'engine connected'],
  connecting: ['busy', 'connecting …'],
  waiting: ['error', 'disconnected'],
  refused: ['error', 'refused'],
};

function ConnectionMark(): ReactElement {
  const connection = useConnection();
  const [tone, word] = PHASE_MARKS[connection.phase];
  const title =
    connection.phase === 'open' ? `pdscope ${connection.version}, ${connection.host} engine` : 'reason' in connection ? connection.reason : undefined;
  return (
    <StateMark tone={tone} title={title}>
      {word}
    </StateMark>
  );
}
