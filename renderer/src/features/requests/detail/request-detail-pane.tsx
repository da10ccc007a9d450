/** The detail of the selected request: title line with actions, and one tab at a time. */
import { Button, Tabs } from '@mantine/core';
import { useMemo, type ReactElement, type Ref } from 'react';
import type { PdscopeError } from '#shared/errors.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { useTabCommands } from '../../../table/use-tab-commands.ts';
import { PHASE_LABEL } from '../../../theme/palette.ts';
import { CopyText } from '../../../ui/copy-text.tsx';
import { formatInteger, formatMs } from '../../../ui/format.ts';
import { Message } from '../../../ui/message.tsx';
import { SEVERITY_SHAPE } from '../../../ui/severity-mark.tsx';
import type { Pin } from '../pins.ts';
import { slowestPhase } from './breakdown.ts';
import { CompareTab } from './compare-tab.tsx';
import { CopyRequest } from './copy-request.tsx';
import { HopsTab } from './hops-tab.tsx';
import { RoutingTab } from './routing-tab.tsx';
import { TokensTab } from './tokens-tab.tsx';
import { worstOf } from './verdicts.ts';
import { WaterfallTab } from './waterfall-tab.tsx';
import { WhyTab } from './why/why-tab.tsx';
import classes from './detail.module.css';

const TABS = ['waterfall', 'hops', 'tokens', 'why', 'routing', 'compare'] as const;
type TabId = (typeof TABS)[number];
const TAB_LABEL: Readonly<Record<TabId, string>> = { waterfall: 'Waterfall', hops: 'Hops', tokens: 'Tokens', why: 'Why a miss', routing: 'Routing', compare: 'Compare' };

export interface RequestDetailPaneProps {
  readonly id: string;
  readonly detail: RequestDetail | undefined;
  readonly error: PdscopeError | undefined;
  /** Rows of the list, to say what is usual for the pair of instances. */
  readonly rows: readonly RequestRow[];
  /** The newest pin that is another request. */
  readonly comparedTo: Pin | undefined;
  readonly isPinned: boolean;
  readonly onPin: () => void;
  readonly onUnpin: (id: string) => void;
  readonly onClose: () => void;
  readonly tab: string;
  readonly onTab: (tab: string) => void;
  readonly ref: Ref<HTMLElement>;
}

export function RequestDetailPane(props: RequestDetailPaneProps): ReactElement {
  const { id, detail, error, rows, comparedTo, isPinned, onPin, onUnpin, onClose, onTab, ref } = props;
  const tabs = TABS.filter((tab) => tab !== 'compare' || comparedTo !== undefined);
  const worst = detail === undefined ? undefined : worstOf(detail.verdicts);
  const tab = tabs.find((candidate) => candidate === props.tab) ?? 'waterfall';
  useTabCommands('Requests', { tabs, current: tab, onTab });
  return (
    <section ref={ref} className={classes.pane} aria-label="Request detail" tabIndex={-1}>
      <Tabs value={tab} onChange={(next) => onTab(next ?? '')} keepMounted={false}>
        <div className={classes.titleLine}>
          <h2 className={classes.title}>
            <CopyText text={detail?.row.requestId ?? id} label="request id" />
          </h2>
          <Tabs.List>
            {tabs.map((one) => (
              <Tabs.Tab key={one} value={one}>
                {TAB_LABEL[one]}
                {one === 'hops' && worst !== undefined && <span className={classes.tabMark} data-severity={worst} title="Findings at its hops"> {SEVERITY_SHAPE[worst]} {detail?.verdicts.length}</span>}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <span className={classes.titleRest}>{detail !== undefined && <SlowestPhase row={detail.row} rows={rows} />}</span>
          <Button onClick={onPin} aria-pressed={isPinned} title="Keep this request at the top and compare others with it (m)">
            {isPinned ? 'Unpin' : 'Pin'}
          </Button>
          {detail !== undefined && <CopyRequest detail={detail} />}
          <Button variant="subtle" onClick={onClose} aria-label="Close the detail" title="Close (Esc)">
            ✕
          </Button>
        </div>
        {error !== undefined && (
          <div className={classes.notice}>
            <Message tone={detail === undefined ? 'error' : 'warning'}>
              {detail === undefined ? error.message : `Shown as last seen: ${error.message}`}
            </Message>
          </div>
        )}
        {detail === undefined ? (
          error === undefined && <p className={classes.loading}>Asking the engine for this request …</p>
        ) : (
          tabs.map((one) => (
            <Tabs.Panel key={one} value={one} tabIndex={0}>
              <TabContent tab={one} detail={detail} comparedTo={comparedTo} onUnpin={onUnpin} />
            </Tabs.Panel>
          ))
        )}
      </Tabs>
    </section>
  );
}

interface TabContentProps {
  readonly tab: TabId;
  readonly detail: RequestDetail;
  readonly comparedTo: Pin | undefined;
  readonly onUnpin: (id: string) => void;
}

function TabContent({ tab, detail, comparedTo, onUnpin }: TabContentProps): ReactElement | undefined {
  switch (tab) {
    case 'hops':
      return <HopsTab detail={detail} />;
    case 'tokens':
      return <TokensTab detail={detail} />;
    case 'why':
      return <WhyTab id={detail.row.id} isRunning={detail.row.state === 'running'} />;
    case 'routing':
      return <RoutingTab detail={detail} />;
    case 'compare':
      return comparedTo === undefined ? undefined : <CompareTab pin={comparedTo} selected={detail} onUnpin={onUnpin} />;
    default:
      return <WaterfallTab detail={detail} />;
  }
}

/** A phase is called out when it takes at least twice what it usually does on this pair. */
const NOTEWORTHY = 2;

function SlowestPhase({ row, rows }: { readonly row: RequestRow; readonly rows: readonly RequestRow[] }): ReactElement | undefined {
  // Looked up once per request: the comparison is a remark, not a gauge.
  // oxlint-disable-next-line react/exhaustive-deps -- `rows` changes ten times a second and must not recompute this
  const slow = useMemo(() => slowestPhase(row, rows), [row]);
  if (slow === undefined) return undefined;
  const name = PHASE_LABEL[slow.phase];
  if (slow.typicalMs === undefined || slow.typicalMs <= 0) return <span className={classes.dim}>slowest phase: {name}, {formatMs(slow.ms)} ms</span>;
  const factor = slow.ms / slow.typicalMs;
  const times = `${factor.toFixed(factor < 10 ? 1 : 0)}× this pair's p50`;
  return (
    <span className={factor >= NOTEWORTHY ? classes.noteworthy : classes.dim} title={`slowest phase: ${name}, ${formatMs(slow.ms)} ms, ${times}; p50 ${formatMs(slow.typicalMs)} ms of ${formatInteger(slow.n)} listed requests of the same route`}>
      {factor >= NOTEWORTHY ? `▲ slowest: ${name}, ${times}` : `slowest phase: ${name}, ${formatMs(slow.ms)} ms`}
    </span>
  );
}
