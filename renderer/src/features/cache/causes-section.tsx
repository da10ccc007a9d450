/** Why recent requests missed, summed up: tokens by cause, with the requests that show it. */
import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { MissCause, MissSummary } from '#shared/cache.ts';
import { MISS_LOOK } from '../../blocks/miss-kinds.ts';
import { MissSwatch } from '../../blocks/miss-pattern.tsx';
import { tokenWords, visibleSpace } from '../../blocks/token-words.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useStreamTrust } from '../../blocks/use-trust.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCompact, formatCount, formatInteger, formatPercent } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StatStrip, StatTile } from '../../ui/stat-tile.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import { useFold } from '../../url/use-fold.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { foldCauses } from './cause-fold.ts';
import classes from './cache.module.css';

const REFRESH_MS = 4000;
/** Of the texts of an example. */
const EXCERPT_CHARS = 32;
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
  const { requests, of, opened, openable, reachesS, promptTokens, missedTokens, unexplained, causes } = summary;
  if (of === 0) {
    return <EmptyState title="No request to explain" text={`No request finished its prefill in the last ${windowMin} minutes.`} />;
  }
  return (
    <>
      <StatStrip label="Requests explained">
        <StatTile label="requests explained" value={formatInteger(requests)} rest={requests === of ? undefined : `of ${formatInteger(of)}, ${formatPercent(requests / of)} %`} title={`Requests of the last ${windowMin} minutes whose prompt was compared with the index by itself; all that is below rests on these`} />
        <StatTile label="prompt tokens" value={formatCompact(promptTokens)} title={formatInteger(promptTokens)} />
        <StatTile label="missed tokens" value={formatCompact(missedTokens)} rest={promptTokens === 0 ? undefined : `${formatPercent(missedTokens / promptTokens)} % of the prompts`} title={formatInteger(missedTokens)} />
      </StatStrip>
      <SectionHead title="Causes, by missed tokens">
        <TrustMark trust={trust} isLong />
        <span className={classes.dim}>lowest of the streams that this rests on</span>
      </SectionHead>
      {reachesS !== undefined && <p className={classes.quiet}>Records reach back {formatInteger(reachesS)} s only: older ones were evicted.</p>}
      {opened > 0 && <p className={classes.quiet}>{formatCount(opened, 'request')} explained since somebody opened {opened === 1 ? 'it' : 'them'}, and left out here: people open what is slow or odd.</p>}
      {causes.length === 0 ? <p className={classes.quiet}>{requests === 0 ? 'No request could be explained.' : 'Nothing was missed.'}</p> : (
        <CauseList causes={causes} />
      )}
      {unexplained.length > 0 && (
        <section className={classes.block} aria-label="Not explained">
          <SectionHead title="Not explained">{openable > 0 && <span className={classes.dim}>{formatCount(openable, 'request')} of them when opened</span>}</SectionHead>
          <ul className={classes.plainList}>
            {unexplained.map(({ reason, requests: count }) => <li key={reason}>{formatCount(count, 'request')}: <span className={classes.dim}>{reason}</span></li>)}
          </ul>
        </section>
      )}
    </>
  );
}

/** The URL's name for the folded causes. */
const REST = 'rest';

/** The few that matter, and the tail folded under its sum. */
function CauseList({ causes }: { readonly causes: readonly MissCause[] }): ReactElement {
  const [isOpen, setOpen] = useFold(REST);
  const { shown, folded } = foldCauses(causes);
  const share = folded.reduce((sum, cause) => sum + cause.share, 0);
  const tokens = folded.reduce((sum, cause) => sum + cause.tokens, 0);
  return (
    <>
      <ol className={classes.causes}>{shown.map((cause) => <Cause key={cause.id} cause={cause} />)}</ol>
      {folded.length > 0 && (
        <>
          <Button className={classes.fold ?? ''} onClick={() => setOpen(!isOpen)} aria-expanded={isOpen}>
            {isOpen ? 'Hide' : 'Show'} {formatInteger(folded.length)} other causes: {formatPercent(share)} %, {formatInteger(tokens)} tokens
          </Button>
          {isOpen && <ol className={classes.causes} aria-label="Other causes">{folded.map((cause) => <Cause key={cause.id} cause={cause} />)}</ol>}
        </>
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
        {cause.examples !== undefined && (
          <ul className={classes.examples} aria-label="Examples">
            {cause.examples.map(({ id, n, token, asked, held }) => (
              <li key={id}>
                <ViewLink to={{ view: 'requests', selection: id, tab: 'why', filter: '' }} title="Both sides of this divergence">#{formatInteger(n)}</ViewLink> after {formatCount(token, 'token')}: <code>{excerpt(asked)}</code>, where <code>{excerpt(held)}</code> is held
              </li>
            ))}
          </ul>
        )}
      </div>
    </li>
  );
}

function excerpt(text: string): string {
  return tokenWords({ tokens: [], text }, EXCERPT_CHARS).words;
}
