/** The application menu, as a template: roles for what the system knows, and the views under Ctrl/Cmd+1..9. */
import type { MenuItemConstructorOptions } from 'electron';
import { VIEWS, VIEW_TITLES } from '#shared/views.ts';

export interface MenuActions {
  readonly showView: (id: string) => void;
  /** Puts the base URL for clients on the clipboard. */
  readonly copyProxyUrl: () => void;
}

export function menuTemplate(platform: NodeJS.Platform, actions: MenuActions): MenuItemConstructorOptions[] {
  const isMac = platform === 'darwin';
  const views: MenuItemConstructorOptions[] = VIEWS.map((id, index) => ({
    label: VIEW_TITLES[id],
    accelerator: `CommandOrControl+${index + 1}`,
    click: () => actions.showView(id),
  }));
  return [
    ...(isMac ? [{ role: 'appMenu' } as const] : []),
    {
      label: '&File',
      submenu: [
        { label: 'Copy Proxy URL', accelerator: 'CommandOrControl+Shift+U', click: () => actions.copyProxyUrl() },
        { type: 'separator' },
        isMac ? { role: 'close' } : { role: 'quit' },
      ],
    },
    { role: 'editMenu' },
    {
      label: '&View',
      submenu: [
        ...views,
        { type: 'separator' },
        { role: 'resetZoom' },
        { role: 'zoomIn' },
        { role: 'zoomOut' },
        { role: 'togglefullscreen' },
        { type: 'separator' },
        { role: 'reload' },
        { role: 'toggleDevTools' },
      ],
    },
    { role: 'windowMenu' },
  ];
}
