/**
 * Why a request missed: its prompt as a bar of verdicts, the evidence of each, and what the other instances would have
 * had. Asked for when the tab is opened: an instance may have to tokenise the prompt first.
 */
import { Button } from '@mantine/core';
import { useEffect, type ReactElement } from 'react';
import type { MissReport } from '#shared/cache.ts';
import type { RecordId } from '#shared/ids.ts';
import { TrustMark } from '../../../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../../../blocks/use-trust.ts';
import { useOperation } from '../../../../transport/use-operation.ts';
import { formatClock, formatDateTime, formatInteger, formatPercent } from '../../../../ui/format.ts';
import { Message } from '../../../../ui/message.tsx';
import { MatchTable } from './match-table.tsx';
import { MissBar } from './miss-bar.tsx';
import { MissRanges } from './miss-ranges.tsx';
import { hitTokens, TOKENS_FROM } from './report-words.ts';
import classes from './why.module.css';

/** A job takes a few hundred milliseconds. */
const PENDING_MS = 700;

export interface WhyTabProps {
  readonly id: RecordId;
  /** A request that still runs may not have reached its prefill; it is asked again when it ends. */
  readonly isRunning: boolean;
}

export function WhyTab({ id, isRunning }: WhyTabProps): ReactElement {
  const { run, value, error, isRunning: isAsking } = useOperation('requests.why');
  // oxlint-disable-next-line react/exhaustive-deps, react/exhaustive-effect-dependencies -- the end of the request asks again
  useEffect(() => void run({ id }), [run, id, isRunning]);
  const report = value?.request === id ? value : undefined;
  const isPending = report?.isPending === true;
  useEffect(() => {
    if (!isPending || isAsking) return undefined;
    const timer = setTimeout(() => void run({ id }), PENDING_MS);
    return () => clearTimeout(timer);
  }, [isPending, isAsking, run, id]);
  const again = <Button onClick={() => void run({ id })} disabled={isAsking}>Ask again</Button>;
  if (report === undefined) {
    return (
      <div className={classes.body}>
        {error === undefined ? <p className={classes.dim}>Comparing the prompt with the index …</p> : <><Message tone="error">{error.message}</Message><div>{again}</div></>}
      </div>
    );
  }
  if (report.isPending === true) {
    return (
      <div className={classes.body}>
        <p className={classes.dim} role="status">Being found out: {report.reason ?? 'the prompt is compared with the index'}.</p>
      </div>
    );
  }
  if (report.state === 'unavailable') {
    return (
      <div className={classes.body}>
        <Message tone="warning">Why it missed cannot be told: {report.reason ?? 'no reason given'}</Message>
        {isRunning && <p className={classes.dim}>The request is still running.</p>}
        <div>{again}</div>
      </div>
    );
  }
  return <Report report={report} again={again} />;
}

function Report({ report, again }: { readonly report: MissReport; readonly again: ReactElement }): ReactElement {
  const toTrust = useTrustOf();
  const { promptTokens, ranges, reportedCachedTokens, instanceName, atUnixMs, blockSize, tokensFrom, tokensNote, isOpened } = report;
  const expected = hitTokens(ranges);
  const whole = promptTokens ?? ranges.reduce((sum, { tokens }) => sum + tokens, 0);
  return (
    <div className={classes.body}>
      <div className={classes.head}>
        <span><b>{formatInteger(expected)}</b> of {formatInteger(whole)} prompt tokens{whole > 0 && ` (${formatPercent(expected / whole)} %)`} were in the cache{instanceName !== undefined && <> of <b>{instanceName}</b></>}</span>
        {atUnixMs !== undefined && <span className={classes.dim} title={formatDateTime(atUnixMs)}>when scheduled, {formatClock(atUnixMs)}</span>}
        <TrustMark trust={toTrust(report.confidence)} isLong />
        <span className={reportedCachedTokens !== undefined && reportedCachedTokens !== expected ? classes.warning : classes.dim} title="cached_tokens of the prefill answer">
          {reportedCachedTokens === undefined ? 'the engine did not say what it found' : `${reportedCachedTokens === expected ? '' : '▲ '}the engine found ${formatInteger(reportedCachedTokens)}`}
        </span>
        <span className={classes.dim}>
          {[...(blockSize !== undefined && blockSize > 0 ? [`blocks of ${formatInteger(blockSize)} tokens`] : []), ...(tokensFrom === undefined ? [] : [TOKENS_FROM[tokensFrom]])].join(', ')}{tokensNote !== undefined && `: ${tokensNote}`}
        </span>
        {isOpened === true && <span className={classes.dim} title="More requests came than are explained by themselves. The causes of misses of many requests leave it out.">explained when opened</span>}
        {again}
      </div>
      {ranges.length === 0 ? <p className={classes.dim}>The prompt has no token.</p> : <MissBar ranges={ranges} promptTokens={whole} />}
      <div className={classes.columns}>
        <MissRanges ranges={ranges} />
        <MatchTable report={report} />
      </div>
    </div>
  );
}
