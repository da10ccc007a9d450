/** The window's content security policy. */

/**
 * Everything from the app's own origin. Styles also by the response's nonce: the UI kit injects a style sheet at run
 * time. No eval, no inline script, no frames, no forms, no network: the page reaches the engine over its port alone.
 */
export function contentSecurityPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "object-src 'none'",
  ].join('; ');
}
