import { Button } from '@mantine/core';
import type { ReactElement, ReactNode } from 'react';
import type { Verdict } from '#shared/findings.ts';
import type { CapturedBody, LegView, RequestDetail } from '#shared/request.ts';
import { useEngineSelector } from '../../../stores/engine-context.tsx';
import { useOperation } from '../../../transport/use-operation.ts';
import { formatBytes, formatMs } from '../../../ui/format.ts';
import { Facts } from '../../../ui/facts.tsx';
import { Fold } from '../../../ui/fold.tsx';
import { Message } from '../../../ui/message.tsx';
import { rankedName } from '../../../ui/ranked-name.ts';
import { RoleMark } from '../../../ui/role-mark.tsx';
import { StateMark, type Tone } from '../../../ui/state-mark.tsx';
import { redactHeaders } from '../export/redact.ts';
import { requestPath } from '../request-path.ts';
import { chosenSummary, legsSummary, runsOf, type Run } from './leg-groups.ts';
import { legWords } from './leg-words.ts';
import { VerdictList } from './verdict-list.tsx';
import { placeVerdicts, type PlacedVerdicts } from './verdicts.ts';
import code from '../../../ui/code-text.module.css';
import classes from './detail.module.css';

const NONE: readonly Verdict[] = [];
const OUTCOME_TONE: Readonly<Record<LegView['outcome'], Tone>> = { ok: 'ok', running: 'busy', error: 'error', aborted: 'unknown' };

/** What went over each hop: address, status, headers, what was rewritten, transfer params, bodies. */
export function HopsTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  const path = requestPath(detail.row);
  const placed = placeVerdicts(detail);
  const hasBodies = detail.clientBody !== undefined || detail.legs.some((leg) => leg.requestBody !== undefined);
  return (
    <div className={classes.tabBody}>
      {!hasBodies && <CaptureSwitch />}
      <Hop title="client → pdscope">
        <Facts
          facts={[
            ['request id', <code key="id">{detail.row.requestId}</code>],
            ['path', path === undefined ? undefined : <code key="path">{path}</code>],
            ['traceparent', detail.traceparent === undefined ? undefined : <code key="trace">{detail.traceparent}</code>],
            ['body', formatBytes(detail.row.requestBytes)],
            ['parsed', detail.parsedMs === undefined ? undefined : `after ${formatMs(detail.parsedMs)} ms`],
          ]}
        />
        <VerdictList verdicts={placed.client} label="Findings on what the client sent" />
        <HeaderList name="client-headers" title="request headers" headers={detail.clientHeaders} />
        <BodyText name="client-body" title="body" body={detail.clientBody} />
      </Hop>
      {runsOf(detail.legs).map((run) =>
        run.isFolded ? (
          <FoldedLegs key={run.items[0]?.index} run={run} placed={placed} />
        ) : (
          run.items.map(({ item, index }) => <LegHop key={index} leg={item} index={index} verdicts={placed.byLeg.get(index) ?? NONE} />)
        ),
      )}
      {placed.elsewhere.length > 0 && (
        <Hop title="on no recorded leg">
          <p className={classes.dim}>A leg that was held back is not sent, so there is no hop to show it at.</p>
          <VerdictList verdicts={placed.elsewhere} label="Findings on no recorded leg" />
        </Hop>
      )}
    </div>
  );
}

/** Dozens of legs as one line, one table, and each in full when asked for. */
function FoldedLegs({ run, placed }: { readonly run: Run<LegView>; readonly placed: PlacedVerdicts }): ReactElement {
  const legs = run.items.map(({ item }) => item);
  return (
    <Hop title={`pdscope → ${chosenSummary(legs.map((leg) => rankedName(leg.instanceName, leg.rank)))}`} mark={<RoleMark role={run.kind} />}>
      {run.items.map(({ index }) => (
        <VerdictList key={index} verdicts={placed.byLeg.get(index) ?? NONE} label={`Findings on leg ${index + 1}`} />
      ))}
      <Fold name={foldName('legs', run.items[0]?.index ?? 0)} className={classes.fold} summary={legsSummary(legs)} isOpenAtFirst={legs.some((leg) => leg.outcome === 'error')}>
        <div className={classes.legGroup}>
          {run.items.map(({ item, index }) => (
            <Fold
              key={index}
              name={foldName('leg', index)}
              className={classes.fold}
              summary={
                <>
                  {rankedName(item.instanceName, item.rank)} <StateMark tone={OUTCOME_TONE[item.outcome]}>{`${item.status ?? 'no status'} ${item.outcome}`}</StateMark>, sent at{' '}
                  {formatMs(item.sentMs)} ms{item.endMs === undefined ? '' : `, took ${formatMs(item.endMs - item.sentMs)} ms`}
                  {item.error !== undefined && `: ${item.error.message}`}
                </>
              }
            >
              <LegHop leg={item} index={index} verdicts={NONE} />
            </Fold>
          ))}
        </div>
      </Fold>
    </Hop>
  );
}

/** What links call a fold of a leg: legs are counted from 1, as people do. */
function foldName(what: string, index: number): string {
  return `${what}-${index + 1}`;
}

interface LegHopProps {
  readonly leg: LegView;
  /** Its place among the legs of the request. */
  readonly index: number;
  readonly verdicts: readonly Verdict[];
}

function LegHop({ leg, index, verdicts }: LegHopProps): ReactElement {
  const usage = leg.usage;
  return (
    <Hop title={`pdscope → ${rankedName(leg.instanceName, leg.rank)}, ${legWords(leg)}`} mark={<RoleMark role={leg.kind} />}>
      <Facts
        facts={[
          ['url', <code key="url">{leg.url}</code>],
          ['status', <StateMark key="status" tone={OUTCOME_TONE[leg.outcome]}>{`${leg.status ?? 'none'} ${leg.outcome}`}</StateMark>],
          ['error', leg.error === undefined ? undefined : `${leg.error.message} (${leg.error.code})`],
          ['bytes', `${formatBytes(leg.requestBytes)} sent, ${formatBytes(leg.responseBytes)} received`],
          ['usage', usage === undefined ? undefined : usageWords(usage)],
          ['finish reason', leg.finishReason],
          ['engine’s own timings', leg.engineMetrics === undefined ? undefined : engineWords(leg.engineMetrics)],
          ['data-parallel rank', leg.rank],
        ]}
      />
      <VerdictList verdicts={verdicts} label={`Findings on the ${leg.kind} leg`} />
      {leg.rewrites.length > 0 && (
        <table className={classes.smallTable}>
          <caption>Body fields changed for this leg</caption>
          <thead>
            <tr><th scope="col">field</th><th scope="col">client sent</th><th scope="col">this leg got</th></tr>
          </thead>
          <tbody>
            {leg.rewrites.map((rewrite) => (
              <tr key={rewrite.field}>
                <th scope="row"><code>{rewrite.field}</code></th>
                <td><code>{rewrite.from ?? '(absent)'}</code></td>
                <td><code>{rewrite.to ?? '(removed)'}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <JsonBlock name={foldName('params-sent', index)} title="kv_transfer_params sent" value={leg.kvTransferParamsSent} />
      <JsonBlock name={foldName('params-received', index)} title="kv_transfer_params received" value={leg.kvTransferParamsReceived} />
      <HeaderList name={foldName('headers-sent', index)} title="request headers" headers={leg.requestHeaders} />
      {leg.responseHeaders !== undefined && <HeaderList name={foldName('headers-received', index)} title="response headers" headers={leg.responseHeaders} />}
      <BodyText name={foldName('body-sent', index)} title="body sent" body={leg.requestBody} />
      <BodyText name={foldName('body-received', index)} title="body received" body={leg.responseBody} />
    </Hop>
  );
}

function Hop({ title, mark, children }: { readonly title: string; readonly mark?: ReactNode; readonly children: ReactNode }): ReactElement {
  return (
    <section className={classes.hop}>
      <h3 className={classes.hopTitle}>{mark}{title}</h3>
      {children}
    </section>
  );
}

function HeaderList({ name, title, headers }: { readonly name: string; readonly title: string; readonly headers: Readonly<Record<string, string>> }): ReactElement {
  // Keys are not for a shared screen either; the engine may have redacted them already.
  const entries = Object.entries(redactHeaders(headers));
  return (
    <Fold name={name} className={classes.fold} summary={`${title} (${entries.length})`}>
      <Facts facts={entries.map(([header, value]) => [header, <code key={header}>{value}</code>])} />
    </Fold>
  );
}

function JsonBlock({ name, title, value }: { readonly name: string; readonly title: string; readonly value: unknown }): ReactElement | undefined {
  if (value === undefined) return undefined;
  return (
    <Fold name={name} className={classes.fold} summary={title} isOpenAtFirst>
      <pre className={`${code.code} ${classes.body ?? ''}`} tabIndex={0} aria-label={title}>{JSON.stringify(value, undefined, 2)}</pre>
    </Fold>
  );
}

function BodyText({ name, title, body }: { readonly name: string; readonly title: string; readonly body: CapturedBody | undefined }): ReactElement | undefined {
  if (body === undefined) return undefined;
  return (
    <Fold name={name} className={classes.fold} summary={`${title} (${formatBytes(body.bytes)}${body.isCut ? `, ✂ cut to the first ${formatBytes(body.text.length)}` : ''})`}>
      <pre className={`${code.code} ${classes.body ?? ''}`} tabIndex={0} aria-label={title}>{prettyJson(body.text)}{body.isCut ? '\n✂ cut here' : ''}</pre>
    </Fold>
  );
}

function CaptureSwitch(): ReactElement {
  const capture = useOperation('capture.set');
  const isOn = useEngineSelector((engine) => engine?.isCapturing) === true;
  return (
    <div className={classes.captureRow}>
      <span className={classes.dim}>
        {isOn
          ? 'Capture is on: new requests keep their bodies (cut when long). This one was recorded without.'
          : 'Bodies were not captured for this request. They are kept only while capture is on, for new requests.'}
      </span>
      <Button loading={capture.isRunning} onClick={() => void capture.run({ isOn: !isOn })}>
        {isOn ? 'Switch capture off' : 'Switch capture on'}
      </Button>
      {capture.error !== undefined && <Message tone="error">{capture.error.message}</Message>}
    </div>
  );
}

function usageWords(usage: NonNullable<LegView['usage']>): string {
  const parts = [
    usage.promptTokens === undefined ? undefined : `prompt ${usage.promptTokens}`,
    usage.cachedTokens === undefined ? undefined : `cached ${usage.cachedTokens}`,
    usage.completionTokens === undefined ? undefined : `completion ${usage.completionTokens}`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'reported without counts' : `${parts.join(', ')} tokens`;
}

function engineWords(metrics: NonNullable<LegView['engineMetrics']>): string {
  const parts = [
    metrics.queueMs === undefined ? undefined : `queue ${formatMs(metrics.queueMs)} ms`,
    metrics.timeToFirstTokenMs === undefined ? undefined : `scheduled to first token ${formatMs(metrics.timeToFirstTokenMs)} ms`,
    metrics.generationMs === undefined ? undefined : `generation ${formatMs(metrics.generationMs)} ms`,
    metrics.meanItlMs === undefined ? undefined : `mean ITL ${formatMs(metrics.meanItlMs)} ms`,
  ].filter((part) => part !== undefined);
  return parts.join(', ');
}

function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
