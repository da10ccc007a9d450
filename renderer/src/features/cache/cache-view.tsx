/**
 * The Cache view: one question per tab, and the block that was picked in any of them below. Section, narrowing, order
 * and the picked block are in the URL; nothing here is kept by the page that the engine does not know.
 */
import { Button, SegmentedControl, Tabs } from '@mantine/core';
import { useEffect, useMemo, useRef, type ReactElement } from 'react';
import { BlockPanel } from '../../blocks/block-panel.tsx';
import { formatBlockRef, parseBlockRef, type BlockRef } from '../../blocks/block-ref.ts';
import { useCommands, type Command } from '../../shell/commands.ts';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useTabCommands } from '../../table/use-tab-commands.ts';
import { isOverlayOpen } from '../../table/table-commands.ts';
import { setUrlState, useUrlState } from '../../url/use-url-state.ts';
import { CausesSection } from './causes-section.tsx';
import { DifferenceSection } from './difference-section.tsx';
import { HitsSection } from './hits-section.tsx';
import { ResidencySection } from './residency-section.tsx';
import { CACHE_SECTIONS, SECTION_TITLES, sectionOf, type CacheSection } from './sections.ts';
import { StormsSection } from './storms-section.tsx';
import { TreeSection } from './tree-section.tsx';
import classes from './cache.module.css';

/** Sections whose figures are of a window of time. */
const WINDOWED: readonly CacheSection[] = ['hits', 'causes', 'difference', 'storms'];

export function CacheView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const section = sectionOf(url.tab);
  const block = parseBlockRef(url.selection);
  const detail = useRef<HTMLElement>(null);
  const open = (ref: BlockRef): void => setUrl({ selection: formatBlockRef(ref) });
  const close = (): void => setUrl({ selection: '' });
  useCacheCommands(close, () => detail.current?.focus());
  useTabCommands('Cache', { tabs: CACHE_SECTIONS, current: section, onTab: (tab) => openSection(sectionOf(tab)) });

  const list = CACHE_SECTIONS.map((one) => (
    <Tabs.Panel key={one} value={one} tabIndex={one === 'tree' ? -1 : 0}>
      <SectionContent section={one} onOpen={open} />
    </Tabs.Panel>
  ));
  return (
    <Tabs value={section} onChange={(tab) => openSection(sectionOf(tab ?? ''))} keepMounted={false}>
      <ViewHeader
        title="Cache"
        actions={
          WINDOWED.includes(section) && (
            <SegmentedControl
              aria-label="Window"
              value={String(url.windowMin)}
              data={[{ value: '5', label: '5 min' }, { value: '15', label: '15 min' }]}
              onChange={(next) => setUrl({ windowMin: next === '15' ? 15 : 5 })}
            />
          )
        }
      >
        <Tabs.List>
          {CACHE_SECTIONS.map((one) => <Tabs.Tab key={one} value={one}>{SECTION_TITLES[one]}</Tabs.Tab>)}
        </Tabs.List>
      </ViewHeader>
      <SplitView
        id="cache"
        list={list}
        listPercent={58}
        detail={
          block === undefined ? undefined : (
            <section ref={detail} className={classes.blockPane} aria-label="Block detail" tabIndex={-1}>
              <div className={classes.blockClose}>
                <Button variant="subtle" onClick={close} aria-label="Close the block" title="Close (Esc)">✕</Button>
              </div>
              <div className={classes.blockScroll} tabIndex={0} role="region" aria-label="Block">
                <BlockPanel key={url.selection} block={block} onOpen={open} />
              </div>
            </section>
          )
        }
      />
    </Tabs>
  );
}

/** Another question: narrowing, order, form and search of the last one do not carry over; a picked block does. */
function openSection(section: CacheSection): void {
  setUrlState({ tab: section === CACHE_SECTIONS[0] ? '' : section, scope: '', metric: '', filter: '', form: '', open: '', hidden: '', pick: '' });
}

function SectionContent({ section, onOpen }: { readonly section: CacheSection; readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  switch (section) {
    case 'causes':
      return <CausesSection />;
    case 'residency':
      return <ResidencySection onOpen={onOpen} />;
    case 'tree':
      return <TreeSection onOpen={onOpen} />;
    case 'difference':
      return <DifferenceSection onOpen={onOpen} />;
    case 'storms':
      return <StormsSection onOpen={onOpen} />;
    default:
      return <HitsSection />;
  }
}

/** The sections in the palette, Esc to close the block, Ctrl+] into it. */
function useCacheCommands(close: () => void, focusDetail: () => void): void {
  const latest = useRef({ close, focusDetail });
  useEffect(() => {
    latest.current = { close, focusDetail };
  });
  const commands = useMemo(
    (): readonly Command[] => [
      ...CACHE_SECTIONS.map((section) => ({ id: `cache.${section}`, title: `Cache: ${SECTION_TITLES[section]}`, group: 'Cache', run: () => openSection(section) })),
      { id: 'cache.escape', title: 'Close the block', group: 'Cache', hotkey: 'Escape', isKeyOnly: true, run: () => !isOverlayOpen() && latest.current.close() },
      { id: 'cache.detail', title: 'To the block', group: 'Cache', hotkey: 'mod+]', isGlobal: true, isKeyOnly: true, run: () => latest.current.focusDetail() },
    ],
    [],
  );
  useCommands(commands);
}
