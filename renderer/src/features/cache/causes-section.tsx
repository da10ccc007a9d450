/** Why recent requests missed, summed up: tokens by cause, with the requests that show it. */
import type { ReactElement } from 'react';
import type { MissCause, MissSummary } from '#shared/cache.ts';
import { MISS_LOOK } from '../../blocks/miss-kinds.ts';
import { MissSwatch } from '../../blocks/miss-pattern.tsx';
import { visibleSpace } from '../../blocks/token-words.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useStreamTrust } from '../../blocks/use-trust.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCompact, formatCount, formatInteger, formatPercent } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StatStrip, StatTile } from '../../ui/stat-tile.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import classes from './cache.module.css';

const REFRESH_MS = 4000;
/** Requests linked per cause; the rest is counted. */
const MOST_REQUESTS = 6;

export function CausesSection(): ReactElement {
  const [url] = useUrlState();
  const { value, error } = usePolledQuery('cache.misses', { windowS: url.windowMin * 60 }, REFRESH_MS);
  if (value === undefined) return <div className={classes.notice}>{error === undefined ? 'Asking the engine …' : <Message tone="error">{error.message}</Message>}</div>;
  return (
    <div className={classes.section}>
      {error !== undefined && <div className={classes.notice}><Message tone="warning">Shown as last seen: {error.message}</Message></div>}
      <Causes summary={value} windowMin={url.windowMin} />
    </div>
  );
}

function Causes({ summary, windowMin }: { readonly summary: MissSummary; readonly windowMin: number }): ReactElement {
  const trust = useStreamTrust();
  const { requests, promptTokens, missedTokens, unexplained, causes } = summary;
  const skipped = unexplained.reduce((sum, one) => sum + one.requests, 0);
  if (requests === 0 && skipped === 0) {
    return <EmptyState title="No request to explain" text={`No request finished its prefill in the last ${windowMin} minutes.`} />;
  }
  return (
    <>
      <StatStrip label="Requests explained">
        <StatTile label="requests explained" value={formatInteger(requests)} rest={skipped === 0 ? undefined : `+ ${formatInteger(skipped)} not`} title={`Requests of the last ${windowMin} minutes whose prompt was compared with the index`} />
        <StatTile label="prompt tokens" value={formatCompact(promptTokens)} title={formatInteger(promptTokens)} />
        <StatTile label="missed tokens" value={formatCompact(missedTokens)} rest={promptTokens === 0 ? undefined : `${formatPercent(missedTokens / promptTokens)} % of the prompts`} title={formatInteger(missedTokens)} />
      </StatStrip>
      <SectionHead title="Causes, by missed tokens">
        <TrustMark trust={trust} isLong />
        <span className={classes.dim}>lowest of the streams that this rests on</span>
      </SectionHead>
      {causes.length === 0 ? <p className={classes.quiet}>{requests === 0 ? 'No request could be explained.' : 'Nothing was missed.'}</p> : (
        <ol className={classes.causes}>{causes.map((cause) => <Cause key={cause.id} cause={cause} />)}</ol>
      )}
      {unexplained.length > 0 && (
        <section className={classes.block} aria-label="Not explained">
          <SectionHead title="Not explained" />
          <ul className={classes.plainList}>
            {unexplained.map(({ reason, requests: count }) => <li key={reason}>{formatCount(count, 'request')}: <span className={classes.dim}>{reason}</span></li>)}
          </ul>
        </section>
      )}
    </>
  );
}

function Cause({ cause }: { readonly cause: MissCause }): ReactElement {
  const rest = cause.requestCount - Math.min(MOST_REQUESTS, cause.requests.length);
  return (
    <li className={classes.cause}>
      <span className={classes.causeShare}>{formatPercent(cause.share)} %</span>
      <span className={classes.causeBar} aria-hidden="true"><span style={{ width: `${Math.max(0.5, cause.share * 100)}%`, background: MISS_LOOK[cause.kind].color }} /></span>
      <div className={classes.causeText}>
        <p>
          <span className={classes.causeKind} title={MISS_LOOK[cause.kind].meaning}><MissSwatch kind={cause.kind} /> {MISS_LOOK[cause.kind].label}</span>
          {visibleSpace(cause.title)}
        </p>
        <p className={classes.dim}>
          {formatInteger(cause.tokens)} tokens in {formatCount(cause.requestCount, 'request')}:{' '}
          {cause.requests.slice(0, MOST_REQUESTS).map(({ id, n }) => (
            <span key={id}><ViewLink to={{ view: 'requests', selection: id, tab: 'why', filter: '' }} title="Why this request missed">#{formatInteger(n)}</ViewLink> </span>
          ))}
          {rest > 0 && `and ${formatInteger(rest)} more`}
        </p>
      </div>
    </li>
  );
}
