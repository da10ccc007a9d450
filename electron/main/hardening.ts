/**
 * Keeps every page of the app in its place: no permissions, no navigation away, no new windows, no webviews. Applied
 * to the session and to each WebContents as it is created, so that a window nobody thought of is covered as well.
 */
import type { Session, Shell, WebContents } from 'electron';
import { originOf } from './origins.ts';

/** Copying to the clipboard from a click is the one thing the page may ask for. Reading it is not. */
const ALLOWED_PERMISSIONS: ReadonlySet<string> = new Set(['clipboard-sanitized-write']);

/** Denies every permission but the list above, and that one to the app's own pages only. */
export function hardenSession(session: Session, trusted: ReadonlySet<string>): void {
  const isAllowed = (permission: string, requestingUrl: string | undefined): boolean => {
    const origin = originOf(requestingUrl ?? '');
    return ALLOWED_PERMISSIONS.has(permission) && origin !== undefined && trusted.has(origin);
  };
  session.setPermissionRequestHandler((_contents, permission, answer, details) => {
    answer(isAllowed(permission, details.requestingUrl));
  });
  session.setPermissionCheckHandler((_contents, permission, requestingOrigin) => isAllowed(permission, requestingOrigin));
  session.setDevicePermissionHandler(() => false);
}

/** Blocks navigation, new windows and webviews of one page. Web links go to the person's browser instead. */
export function hardenContents(contents: WebContents, trusted: ReadonlySet<string>, shell: Pick<Shell, 'openExternal'>): void {
  contents.on('will-navigate', (event) => {
    const origin = originOf(event.url);
    if (origin === undefined || !trusted.has(origin)) event.preventDefault();
  });
  // A redirect or a frame has no business anywhere, not even within the app.
  contents.on('will-redirect', (event) => event.preventDefault());
  contents.on('will-frame-navigate', (event) => {
    if (!event.isMainFrame) event.preventDefault();
  });
  contents.on('will-attach-webview', (event) => event.preventDefault());
  contents.setWindowOpenHandler(({ url }) => {
    if (isExternalLink(url)) void openQuietly(shell, url);
    return { action: 'deny' };
  });
}

/**
 * Whether an address may be handed to the operating system: https only, without credentials. Other schemes can start
 * programs, and `file:` or `smb:` can leak a login.
 */
export function isExternalLink(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const url = new URL(address);
  return url.protocol === 'https:' && url.username === '' && url.password === '';
}

async function openQuietly(shell: Pick<Shell, 'openExternal'>, url: string): Promise<void> {
  try {
    await shell.openExternal(url);
  } catch (error) {
    // No browser on this machine: the link stays where it was, and the terminal says why.
    process.stderr.write(`pdscope: could not open ${url}: ${String(error)}\n`);
  }
}
