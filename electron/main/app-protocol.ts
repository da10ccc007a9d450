/**
 * `app://pdscope/...`: the built renderer as the window sees it. Serves files under one folder and nothing else, with
 * the headers a web server would send; index.html gets a fresh nonce with every response.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { extname, isAbsolute, join, relative, resolve } from 'node:path';
import type { CustomScheme } from 'electron';
import { contentSecurityPolicy } from './csp.ts';
import { APP_HOST, APP_SCHEME } from './origins.ts';

/** Put into index.html by the build (`html.cspNonce`). */
const NONCE_PLACEHOLDER = 'PDSCOPE_NONCE';

const MIME_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.wasm': 'application/wasm',
};

/** `standard` gives the scheme hosts and relative URLs, `secure` a trustworthy origin. Must be registered before `ready`. */
export const APP_SCHEME_PRIVILEGES: CustomScheme = {
  scheme: APP_SCHEME,
  privileges: { standard: true, secure: true, supportFetchAPI: true },
};

/**
 * The handler for `protocol.handle`.
 * @param root Folder of the built renderer, absolute.
 */
export function createAppProtocol(root: string): (request: Request) => Promise<Response> {
  return async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return refusal(405, 'Only GET and HEAD');
    const url = new URL(request.url);
    if (url.host !== APP_HOST) return refusal(404, 'No such host');
    const path = resolveAsset(root, url.pathname);
    if (path === undefined) return refusal(403, 'Outside the app');
    const type = MIME_TYPES[extname(path)];
    // A type we do not know is a file we did not build.
    if (type === undefined) return refusal(404, 'Not found');
    let body: Buffer<ArrayBuffer>;
    try {
      body = await readFile(path);
    } catch {
      return refusal(404, 'Not found');
    }
    const headers = { 'content-type': type, 'x-content-type-options': 'nosniff' };
    if (extname(path) !== '.html') return new Response(request.method === 'HEAD' ? null : body, { headers });
    const nonce = randomBytes(16).toString('base64');
    const html = body.toString('utf8').replaceAll(NONCE_PLACEHOLDER, nonce);
    return new Response(request.method === 'HEAD' ? null : html, {
      headers: {
        ...headers,
        'content-security-policy': contentSecurityPolicy(nonce),
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
      },
    });
  };
}

/**
 * The file of a URL path; undefined when it would leave `root`. The URL parser has folded `..` and `%2e%2e` already;
 * what it leaves (`..%2f`, back slashes, NUL, drive letters) is refused here.
 */
export function resolveAsset(root: string, pathname: string): string | undefined {
  let decoded: string;
  try {
    decoded = decodeURIComponent(pathname);
  } catch {
    return undefined;
  }
  if (decoded.includes('\0') || decoded.includes('\\')) return undefined;
  const path = resolve(root, `.${decoded === '/' ? '/index.html' : decoded}`);
  const inside = relative(root, path);
  if (inside === '' || inside.startsWith('..') || isAbsolute(inside)) return undefined;
  return join(root, inside);
}

function refusal(status: number, text: string): Response {
  return new Response(text, { status, headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' } });
}
