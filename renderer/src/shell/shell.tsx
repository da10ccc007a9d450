import { useDisclosure } from '@mantine/hooks';
import { Suspense, useEffect, type ReactElement, type ReactNode } from 'react';
import { VIEW_TITLES } from '#shared/views.ts';
import { useUrlState } from '../url/use-url-state.ts';
import { CommandPalette } from './command-palette.tsx';
import { ConnectionBanner } from './connection-banner.tsx';
import { HotkeyBinder } from './hotkeys.tsx';
import { LeftRail } from './left-rail.tsx';
import { ShellCommands } from './shell-commands.tsx';
import classes from './shell.module.css';
import { ShortcutSheet } from './shortcut-sheet.tsx';
import { StatusBar } from './status-bar.tsx';
import { ViewBoundary } from './view-boundary.tsx';

/** The frame around every view: rail, banner, view, status bar; palette and shortcut sheet on demand. */
export function Shell({ children }: { readonly children: ReactNode }): ReactElement {
  const [isSheetOpen, sheet] = useDisclosure(false);
  const [{ view }] = useUrlState();

  useEffect(() => {
    document.title = `${VIEW_TITLES[view]} · pdscope`;
  }, [view]);

  return (
    <div className={classes.shell}>
      <ShellCommands onShowShortcuts={sheet.open} />
      <HotkeyBinder />
      <LeftRail />
      <main className={classes.main}>
        <ConnectionBanner />
        <div className={classes.view}>
          <ViewBoundary view={view}>
            <Suspense key={view}>{children}</Suspense>
          </ViewBoundary>
        </div>
      </main>
      <StatusBar />
      <CommandPalette />
      <ShortcutSheet isOpen={isSheetOpen} onClose={sheet.close} />
    </div>
  );
}
