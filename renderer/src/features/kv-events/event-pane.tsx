/** Below the list: the selected event in three readings, and the resident blocks, which need no selection. */
import { Tabs } from '@mantine/core';
import type { ReactElement, Ref } from 'react';
import type { KvRow } from '#shared/kv.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useTabCommands } from '../../table/use-tab-commands.ts';
import { setUrlState, useUrlState } from '../../url/use-url-state.ts';
import { BlockTab } from './block-tab.tsx';
import { EventDetail } from './event-detail.tsx';
import { FramesTab } from './frames-tab.tsx';
import { ResidentPane } from './resident-pane.tsx';
import classes from './kv-events.module.css';

const TABS = ['event', 'block', 'frames', 'resident'] as const;
type PaneTab = (typeof TABS)[number];
const TAB_TITLES: Readonly<Record<PaneTab, string>> = { event: 'Event', block: 'Block', frames: 'Raw frames', resident: 'Resident blocks' };
const NO_SELECTION: readonly PaneTab[] = ['resident'];

export interface EventPaneProps {
  /** Number of the event; '' = none. */
  readonly selection: string;
  /** Of the URL; unknown ones open the first. */
  readonly tab: string;
  /** Absent while the event is not in the list. */
  readonly selected: { readonly row: KvRow; readonly isGone: boolean } | undefined;
  readonly ref: Ref<HTMLElement>;
}

export function EventPane({ selection, tab, selected, ref }: EventPaneProps): ReactElement {
  const [url] = useUrlState();
  const currentEpoch = useEngineSelector((engine) => engine?.streams.find(({ id }) => id === selected?.row.stream)?.epochs);
  const tabs = selection === '' ? NO_SELECTION : TABS;
  const current = tabs.find((one) => one === tab) ?? tabs[0] ?? 'event';
  const open = (next: string): void => setUrlState({ tab: next === 'event' ? '' : next, scope: '', metric: '', pick: '' });
  useTabCommands('KV events', { tabs, current, onTab: open });
  const missing = <p className={classes.missing}>Event {selection} is not in the list: filtered out, or no longer kept.</p>;
  return (
    <section ref={ref} className={classes.pane} aria-label="Event and resident blocks" tabIndex={-1}>
      <Tabs value={current} onChange={(next) => open(next ?? '')} keepMounted={false}>
        <Tabs.List className={classes.tabBar ?? ''}>
          {TABS.map((one) => <Tabs.Tab key={one} value={one} disabled={!tabs.includes(one)}>{TAB_TITLES[one]}</Tabs.Tab>)}
        </Tabs.List>
        <Tabs.Panel value="event" tabIndex={0}>
          {selected === undefined ? missing : (
            <EventDetail
              row={selected.row}
              isGone={selected.isGone}
              currentEpoch={currentEpoch}
              onFilter={(filter) => setUrlState({ filter })}
              onBlock={() => open('block')}
              onResident={(hash) => {
                open('resident');
                setUrlState({ pick: hash });
              }}
            />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="block" tabIndex={0}>
          {selected === undefined ? missing : <BlockTab row={selected.row} pick={url.pick} onPick={(pick) => setUrlState({ pick })} />}
        </Tabs.Panel>
        <Tabs.Panel value="frames" tabIndex={0}>
          {/^\d+$/u.test(selection) && <FramesTab n={Number(selection)} />}
        </Tabs.Panel>
        <Tabs.Panel value="resident" tabIndex={0}>
          <ResidentPane query={{ stream: url.scope, medium: url.metric, hash: url.pick }} onQuery={({ stream, medium, hash }) => setUrlState({ scope: stream, metric: medium, pick: hash })} />
        </Tabs.Panel>
      </Tabs>
    </section>
  );
}
