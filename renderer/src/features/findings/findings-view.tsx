/**
 * The findings view: what pdscope concluded on the left, worst first; the selected diagnosis with its next step and its
 * evidence on the right. Filter, highlight, selection and the dismissed toggle live in the URL.
 */
import { Checkbox } from '@mantine/core';
import { useCallback, useMemo, useRef, type ReactElement } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import { FINDING_FILTER_FIELDS } from '#shared/filter/finding-fields.ts';
import type { Finding } from '#shared/findings.ts';
import { FilterBar, type FilterBarHandle } from '../../filter/filter-bar.tsx';
import { inOrder, useFindings, type FindingsState } from '../../findings/use-findings.ts';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { ClearButton } from '../../table/clear-button.tsx';
import { moveSelection, type Move } from '../../table/selection.ts';
import { useTableCommands } from '../../table/table-commands.ts';
import { Message } from '../../ui/message.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { FindingDetail } from './finding-detail.tsx';
import { FindingList } from './finding-list.tsx';
import { NoFindings } from './no-findings.tsx';
import classes from './findings.module.css';

const READY_MADE = ['severity:error', 'severity:error,warning', 'effect:kills,hangs', 'blocked>0', 'connector:nixl', 'hop:proxy->decode'];
/** Value of the URL's tab while dismissed findings are listed too. */
const WITH_DISMISSED = 'all';
/** Rows that Page Up and Page Down skip. */
const PAGE_ROWS = 16;
const NONE: readonly Finding[] = [];

export function FindingsView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const withDismissed = url.tab === WITH_DISMISSED;
  const state = useFindings(withDismissed);
  const findings = useMemo(() => inOrder(state.page?.findings ?? NONE), [state.page]);
  const shown = useMemo(() => {
    const compiled = compileFilter(url.filter, FINDING_FILTER_FIELDS);
    return compiled.ok ? findings.filter((finding) => compiled.matches(finding)) : findings;
  }, [findings, url.filter]);
  const isHighlighted = useMemo(() => {
    const compiled = compileFilter(url.highlight, FINDING_FILTER_FIELDS);
    return compiled.ok && url.highlight !== '' ? compiled.matches : undefined;
  }, [url.highlight]);
  // The engine's clock, to the second: what is shown in seconds need not be drawn four times in each.
  const nowUnixMs = useEngineSelector((engine) => Math.ceil((engine?.nowUnixMs ?? 0) / 1000) * 1000);
  const filterBar = useRef<FilterBarHandle>(null);
  const list = useRef<HTMLDivElement>(null);
  const detail = useRef<HTMLElement>(null);

  const select = useCallback((selection: string) => setUrl({ selection }), [setUrl]);
  const selected = findings.find((finding) => finding.id === url.selection);
  const selectedIndex = shown.findIndex((finding) => finding.id === url.selection);
  const move = (how: Move): void => {
    const index = moveSelection(how, { count: shown.length, selected: selectedIndex === -1 ? undefined : selectedIndex, firstVisible: 0, pageRows: PAGE_ROWS });
    const next = index === undefined ? undefined : shown[index];
    if (next !== undefined) select(next.id);
  };
  useTableCommands('Findings', {
    move,
    focusFilter: () => filterBar.current?.focus(),
    focusList: () => list.current?.focus(),
    focusDetail: () => detail.current?.focus(),
    escape: () => select(''),
  });

  return (
    <>
      <ViewHeader
        title="Findings"
        actions={
          <>
            <Checkbox
              label="dismissed too"
              checked={withDismissed}
              onChange={(event) => setUrl({ tab: event.currentTarget.checked ? WITH_DISMISSED : '' })}
            />
            <ClearButton operation="findings.clear" />
          </>
        }
      >
        <FilterBar
          ref={filterBar}
          id="findings"
          fields={FINDING_FILTER_FIELDS}
          rows={findings}
          filter={url.filter}
          onFilter={(filter) => setUrl({ filter })}
          highlight={url.highlight}
          onHighlight={(highlight) => setUrl({ highlight })}
          builtIn={READY_MADE}
          placeholder="severity:error instance:P0 …   ( / )"
          everything={withDismissed ? 'open and dismissed findings, worst first' : 'open findings, worst first'}
          onDone={() => list.current?.focus()}
          aside={<Counters state={state} shown={shown.length} />}
        />
      </ViewHeader>
      {state.error !== undefined && (
        <div className={classes.notice}>
          <Message tone={state.page === undefined ? 'error' : 'warning'}>{state.page === undefined ? state.error.message : `Shown as last seen: ${state.error.message}`}</Message>
        </div>
      )}
      <SplitView
        id="findings"
        placement="beside"
        listPercent={54}
        list={
          shown.length === 0 ? (
            <div ref={list} className={classes.scroll} tabIndex={-1}>
              <NoFindings state={state} filter={url.filter} hidden={findings.length} onClearFilter={() => setUrl({ filter: '' })} onShowDismissed={() => setUrl({ tab: WITH_DISMISSED })} />
            </div>
          ) : (
            <FindingList ref={list} findings={shown} selection={url.selection} onSelect={select} onMove={move} nowUnixMs={nowUnixMs} isHighlighted={isHighlighted} />
          )
        }
        detail={
          url.selection === '' ? undefined : selected === undefined ? (
            <p className={classes.notice}>
              {state.page === undefined ? 'Asking the engine for its findings …' : `${url.selection} is not among the ${withDismissed ? '' : 'open '}findings: dismissed, cleared, or from another run of pdscope.`}
            </p>
          ) : (
            <FindingDetail key={selected.id} ref={detail} finding={selected} nowUnixMs={nowUnixMs} onClose={() => select('')} />
          )
        }
      />
    </>
  );
}

function Counters({ state, shown }: { readonly state: FindingsState; readonly shown: number }): ReactElement | undefined {
  const summary = state.page?.summary;
  if (summary === undefined) return undefined;
  const { error, warning, info } = summary.open;
  return (
    <span className={classes.counters} data-testid="finding-counters">
      shown {shown} · open {error + warning + info} ({error} error, {warning} warning, {info} info) · dismissed {summary.dismissed} ·{' '}
      <span title="Findings forgotten because there were too many">evicted {summary.evicted}</span>
    </span>
  );
}
