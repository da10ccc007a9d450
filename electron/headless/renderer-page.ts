/** The page's index.html with a fresh nonce for each response, and the policy that goes with it. */
import { randomBytes } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** What the build leaves in every place of a nonce (vite `html.cspNonce`). */
const NONCE_PLACEHOLDER = 'PDSCOPE_NONCE';

export interface RenderedPage {
  readonly html: string;
  readonly csp: string;
}

/**
 * Only the page's own files run and only its own host is reached. Styles by nonce: the UI kit injects a style sheet at
 * run time. `ws://` is named because not every browser counts it as `'self'`.
 */
export function contentSecurityPolicy(nonce: string, host: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self' ws://${host}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "object-src 'none'",
  ].join('; ');
}

/** Renders index.html of `rendererDir`; answers undefined when it is not built. Re-reads the file when it changes. */
export function createRendererPage(rendererDir: string): (host: string) => Promise<RenderedPage | undefined> {
  const path = join(rendererDir, 'index.html');
  let cached: { readonly mtimeMs: number; readonly text: string } | undefined;
  return async (host) => {
    const file = await stat(path).catch(() => undefined);
    if (file === undefined) return undefined;
    if (cached?.mtimeMs !== file.mtimeMs) cached = { mtimeMs: file.mtimeMs, text: await readFile(path, 'utf8') };
    const nonce = randomBytes(18).toString('base64');
    return { html: cached.text.replaceAll(NONCE_PLACEHOLDER, nonce), csp: contentSecurityPolicy(nonce, host) };
  };
}
