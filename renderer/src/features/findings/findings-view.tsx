/**
 * The findings view: what pdscope concluded on the left, one line per diagnosis, worst first; the selected diagnosis
 * with its next step, its places and its evidence on the right. Filter, highlight, selection and which of open and
 * dismissed are listed live in the URL. All findings are asked for whatever is listed, so that one that was just
 * dismissed stays in the detail, where it can be brought back.
 */
import { SegmentedControl } from '@mantine/core';
import { useCallback, useMemo, useRef, type ReactElement } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import { FINDING_FILTER_FIELDS } from '#shared/filter/finding-fields.ts';
import type { Finding } from '#shared/findings.ts';
import { FilterBar, type FilterBarHandle } from '../../filter/filter-bar.tsx';
import { useHighlight } from '../../filter/use-highlight.ts';
import { findSelected, groupFindings, type FindingGroup } from '../../findings/finding-groups.ts';
import { useFindings, type FindingsState } from '../../findings/use-findings.ts';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { ClearButton } from '../../table/clear-button.tsx';
import { moveSelection, type Move } from '../../table/selection.ts';
import { useTableCommands } from '../../table/table-commands.ts';
import { formatCount, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import records from '../../ui/record-table.module.css';
import { readUrlList, toggleInUrlList } from '../../url/url-list.ts';
import { setUrlState, useUrlState } from '../../url/use-url-state.ts';
import { FindingDetail } from './finding-detail.tsx';
import { findingLines } from './finding-lines.ts';
import { FindingList } from './finding-list.tsx';
import { NoFindings } from './no-findings.tsx';
import { useFindingCommands } from './use-finding-commands.ts';
import { WHICH, WHICH_WORDS, whichOf } from './which.ts';
import classes from './findings.module.css';

const READY_MADE = ['severity:error', 'severity:error,warning', 'effect:kills,hangs', 'blocked>0', 'connector:nixl', 'hop:proxy->decode'];
/** Rows that Page Up and Page Down skip. */
const PAGE_ROWS = 16;
const NONE: readonly Finding[] = [];

const onFilter = (filter: string): void => setUrlState({ filter });
const onHighlight = (highlight: string): void => setUrlState({ highlight });

export function FindingsView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const which = whichOf(url.tab);
  const state = useFindings(true);
  const all = state.page?.findings ?? NONE;
  const getAll = useCallback(() => all, [all]);
  const listed = useMemo(() => all.filter((finding) => which === 'all' || finding.isDismissed === (which === 'dismissed')), [all, which]);
  const groups = useMemo(() => {
    const compiled = compileFilter(url.filter, FINDING_FILTER_FIELDS);
    return groupFindings(compiled.ok ? listed.filter((finding) => compiled.matches(finding)) : listed);
  }, [listed, url.filter]);
  const isHighlighted = useHighlight(url.highlight, FINDING_FILTER_FIELDS);
  const isGroupHighlighted = useMemo(() => isHighlighted && ((group: FindingGroup) => group.places.some(isHighlighted)), [isHighlighted]);
  // The engine's clock, to the second: what is shown in seconds need not be drawn four times in each.
  const nowUnixMs = useEngineSelector((engine) => Math.ceil((engine?.nowUnixMs ?? 0) / 1000) * 1000);
  const filterBar = useRef<FilterBarHandle>(null);
  const list = useRef<HTMLDivElement>(null);
  const detail = useRef<HTMLElement>(null);

  const select = useCallback((selection: string) => setUrl({ selection }), [setUrl]);
  const selected = useMemo(() => findSelected(all, url.selection), [all, url.selection]);
  const folds = readUrlList(url.open);
  // A link to one place of several opens the others around it; folding them selects the diagnosis.
  const isOpen = (code: string): boolean => folds.includes(code) || (selected?.places.length === 1 && selected.code === code);
  const lines = findingLines(groups, isOpen);
  const selectedIndex = lines.findIndex(({ id }) => id === url.selection);
  const fold = (code: string, isToOpen: boolean): void => {
    const group = !isToOpen && selected?.code === code ? groups.find((one) => one.code === code) : undefined;
    setUrl({ open: toggleInUrlList(url.open, code, isToOpen), ...(group !== undefined && { selection: group.id }) });
  };
  const move = (how: Move): void => {
    const index = moveSelection(how, { count: lines.length, selected: selectedIndex === -1 ? undefined : selectedIndex, firstVisible: 0, pageRows: PAGE_ROWS });
    const next = index === undefined ? undefined : lines[index];
    if (next !== undefined) select(next.id);
    list.current?.focus({ preventScroll: true });
  };
  useTableCommands('Findings', {
    move,
    focusFilter: () => filterBar.current?.focus(),
    focusList: () => list.current?.focus(),
    focusDetail: () => detail.current?.focus(),
    escape: () => select(''),
  });
  useFindingCommands(selected);

  return (
    <>
      <ViewHeader
        title="Findings"
        actions={
          <>
            <SegmentedControl
              aria-label="Which findings"
              value={which}
              data={WHICH.map((one) => ({ value: one, label: one }))}
              onChange={(next) => setUrl({ tab: next === 'open' ? '' : next })}
            />
            <ClearButton operation="findings.clear" />
          </>
        }
      >
        <FilterBar
          ref={filterBar}
          id="findings"
          fields={FINDING_FILTER_FIELDS}
          getRows={getAll}
          filter={url.filter}
          onFilter={onFilter}
          highlight={url.highlight}
          onHighlight={onHighlight}
          builtIn={READY_MADE}
          placeholder="severity:error instance:P0 …   ( / )"
          everything={`${WHICH_WORDS[which]}, worst first`}
          onDone={() => list.current?.focus()}
          aside={<Counters state={state} groups={groups} />}
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
          lines.length === 0 ? (
            <div ref={list} className={records.scroll} tabIndex={-1}>
              <NoFindings state={state} which={which} filter={url.filter} hidden={listed.length} onClearFilter={() => setUrl({ filter: '' })} onShowDismissed={() => setUrl({ tab: 'dismissed' })} />
            </div>
          ) : (
            <FindingList ref={list} lines={lines} selection={url.selection} onSelect={select} onMove={move} onFold={fold} nowUnixMs={nowUnixMs} isHighlighted={isGroupHighlighted} />
          )
        }
        detail={
          url.selection === '' ? undefined : selected === undefined ? (
            <p className={classes.notice}>
              {state.page === undefined ? 'Asking the engine for its findings …' : `${url.selection} is not among the findings: cleared, evicted, or from another run of pdscope.`}
            </p>
          ) : (
            <FindingDetail key={selected.id} ref={detail} group={selected} nowUnixMs={nowUnixMs} onSelect={select} onClose={() => select('')} />
          )
        }
      />
    </>
  );
}

function Counters({ state, groups }: { readonly state: FindingsState; readonly groups: readonly FindingGroup[] }): ReactElement | undefined {
  const summary = state.page?.summary;
  if (summary === undefined) return undefined;
  const { error, warning, info } = summary.open;
  const shown = groups.reduce((sum, { places }) => sum + places.length, 0);
  return (
    <span className={classes.counters} data-testid="finding-counters">
      shown {formatInteger(shown)}{shown > groups.length && ` in ${formatCount(groups.length, 'line')}`} · open {error + warning + info} ({error} error, {warning} warning, {info} info) · dismissed or over {summary.dismissed} ·{' '}
      <span title="Findings forgotten because there were too many">evicted {summary.evicted}</span>
    </span>
  );
}
