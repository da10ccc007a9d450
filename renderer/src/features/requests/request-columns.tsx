/** The columns of the Requests list. */
import type { ReactElement } from 'react';
import type { RequestRow } from '#shared/request.ts';
import type { Api } from '#shared/vocabulary.ts';
import type { Column } from '../../table/column.ts';
import { formatClock, formatDateTime, formatDuration, formatInteger, formatMs, formatPercent } from '../../ui/format.ts';
import { Num } from '../../ui/num.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { PhaseBar } from './phase-bar.tsx';
import { requestPath } from './request-path.ts';
import { routeParts } from './route-words.ts';
import classes from './requests.module.css';

/** Columns for a shared phase scale; keep the array as long as the scale stays. */
export function requestColumns(scaleMs: number): readonly Column<RequestRow>[] {
  return [
    {
      id: 'received', header: 'received', width: 92, isMono: true, title: 'When pdscope received the request, local time',
      cell: (row) => <span className={classes.dim} title={formatDateTime(row.receivedAtUnixMs)}>{formatClock(row.receivedAtUnixMs)}</span>,
    },
    { id: 'status', header: 'status', width: 88, title: 'HTTP status the client got', cell: (row) => <Status row={row} /> },
    {
      id: 'findings', header: 'findings', width: 46, title: 'Verdicts on the request, with the shape of the worst: ✕ error, ▲ warning, ● info',
      cell: (row) => <Findings row={row} />,
    },
    {
      id: 'api', header: 'api', width: 60, isMono: true, title: 'chat, completions, generate, or the path of a forwarded request; ⇉ = streamed', priority: 3,
      cell: (row) => (
        <span title={`${requestPath(row) ?? row.api}, ${row.isStream ? 'streamed' : 'not streamed'}`}>
          {row.api === 'forward' ? forwardedWord(row) : API_WORDS[row.api]}
          {row.isStream && <span className={classes.dim}> ⇉</span>}
        </span>
      ),
    },
    { id: 'route', header: 'route', width: 176, grow: 0.5, title: 'Instances of the legs, in order', cell: (row) => <Route row={row} /> },
    { id: 'model', header: 'model', width: 130, grow: 0.6, priority: 6, title: 'Model the client asked for', cell: (row) => <span className={classes.dim} title={row.model}>{row.model ?? '—'}</span> },
    { id: 'prompt', header: 'prompt', width: 56, align: 'end', title: 'Prompt tokens, as reported', cell: (row) => <Num value={row.promptTokens} format={formatInteger} /> },
    { id: 'cached', header: 'cached', width: 54, align: 'end', priority: 2, title: 'Share of the prompt that prefill found in its cache, as the prefill leg reported', cell: (row) => <Cached row={row} /> },
    { id: 'ttft', header: 'TTFT ms', width: 58, align: 'end', title: 'Time to first token: request received to first chunk', cell: (row) => <Num value={row.ttftMs} format={formatMs} /> },
    { id: 'itl', header: 'ITL ms', width: 50, align: 'end', title: 'Median gap between chunks', cell: (row) => <Num value={row.itlMs} format={formatMs} /> },
    { id: 'tokens', header: 'tokens', width: 50, align: 'end', title: 'Output tokens as reported; without a report the chunks seen', cell: (row) => <OutputTokens row={row} /> },
    { id: 'e2el', header: 'E2EL', width: 62, align: 'end', priority: 5, title: 'End-to-end latency', cell: (row) => <Num value={row.e2elMs} format={formatDuration} /> },
    {
      id: 'phases', header: `phases, 0 – ${formatDuration(scaleMs)}`, width: 250, grow: 1,
      title: `Queue, compute, handoff, remote-KV wait, decode, on one scale for all rows, 0 to ${formatDuration(scaleMs)}. Hatched: an upper bound, or not attributed`,
      cell: (row) => <PhaseBar row={row} scaleMs={scaleMs} />,
    },
  ];
}

const API_WORDS: Readonly<Record<Api, string>> = { chat: 'chat', completions: 'compl', generate: 'gen' };

/** `/v1/embeddings` is `embeddings`; the version says nothing here. */
function forwardedWord(row: RequestRow): string {
  return row.path?.replace(/^\/(?:v\d+\/)?/u, '') ?? 'forward';
}

function Findings({ row }: { readonly row: RequestRow }): ReactElement | undefined {
  if (row.findings === undefined) return undefined;
  const { count, worst } = row.findings;
  return <SeverityMark severity={worst} title={`${formatInteger(count)} ${count === 1 ? 'finding' : 'findings'}, worst: ${worst}`}>{formatInteger(count)}</SeverityMark>;
}

function Status({ row }: { readonly row: RequestRow }): ReactElement {
  const retried = row.retries > 0 && <span className={classes.retried} title={`${row.retries} legs were tried again on another instance`}> ↻{row.retries}</span>;
  const status = row.status === undefined ? '' : String(row.status);
  switch (row.state) {
    case 'running':
      return <><StateMark tone="busy" title="still running">{status === '' ? 'running' : `${status} …`}</StateMark>{retried}</>;
    case 'aborted':
      return <><StateMark tone="unknown" title={`the client went away; status sent: ${status || 'none'}`}>aborted</StateMark>{retried}</>;
    case 'error':
      return <><StateMark tone="error" title={row.error?.message}>{status === '' ? 'error' : status}</StateMark>{retried}</>;
    default:
      return <span className={classes.okStatus}>{status === '' ? 'ok' : status}{retried}</span>;
  }
}

function Route({ row }: { readonly row: RequestRow }): ReactElement {
  if (row.route.length === 0) return <span className={classes.dim}>—</span>;
  return (
    <span className={classes.route}>
      {routeParts(row.route).map((part, index) => (
        // Steps never change places; a retried leg may go to the instance it came from.
        // oxlint-disable-next-line react/no-array-index-key
        <span key={`${part.kind}${index}`} className={classes.routeStep} title={part.title}>
          {index > 0 && <span className={classes.dim}>→</span>}
          <InstanceName role={part.kind} name={part.label} />
        </span>
      ))}
    </span>
  );
}

function Cached({ row }: { readonly row: RequestRow }): ReactElement {
  const share = row.cachedTokens === undefined || row.promptTokens === undefined || row.promptTokens === 0 ? undefined : row.cachedTokens / row.promptTokens;
  return <Num value={share} format={formatPercent} unit="%" {...(row.cachedTokens !== undefined && { title: `${formatInteger(row.cachedTokens)} tokens` })} />;
}

function OutputTokens({ row }: { readonly row: RequestRow }): ReactElement {
  if (row.completionTokens !== undefined) return <Num value={row.completionTokens} format={formatInteger} />;
  if (row.chunks === 0) return <Num value={undefined} format={formatInteger} title="no usage reported, no chunk seen" />;
  return <span className={classes.dim} title="chunks seen; the engine reported no usage">~{formatInteger(row.chunks)}</span>;
}
