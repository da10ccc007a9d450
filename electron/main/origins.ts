/**
 * Which pages the main process trusts: the app's own scheme, and in development the dev server on loopback. Everything
 * that decides about a page (IPC, navigation, permissions) asks here.
 */

export const APP_SCHEME = 'app';
export const APP_HOST = 'pdscope';
/** Where the window's page lives. */
export const APP_ORIGIN = `${APP_SCHEME}://${APP_HOST}`;

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** `scheme://host[:port]` of an address; undefined when it is not one. WHATWG gives custom schemes the origin `null`. */
export function originOf(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  return `${url.protocol}//${url.host}`;
}

/**
 * The dev server's origin, or undefined. A packaged app has none whatever its environment says, and a dev server is
 * on loopback: anything else would hand the engine to a page from the network.
 */
export function devOrigin(address: string | undefined, isPackaged: boolean): string | undefined {
  if (isPackaged || address === undefined || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  return url.protocol === 'http:' && LOOPBACK.has(url.hostname) ? url.origin : undefined;
}

/** What is needed to know of a frame; Electron's WebFrameMain fits. */
export interface FrameLike {
  readonly url: string;
  readonly parent: unknown;
}

/** True for the top frame of a page of the app. A destroyed frame (null) is not trusted. */
export function isTrustedFrame(frame: FrameLike | null | undefined, trusted: ReadonlySet<string>): boolean {
  if (frame === null || frame === undefined || frame.parent !== null) return false;
  const origin = originOf(frame.url);
  return origin !== undefined && trusted.has(origin);
}
