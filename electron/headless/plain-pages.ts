/** The few pages that need no script: signed out, link used, not built. No markup of any request goes into them. */

export interface PlainPage {
  readonly title: string;
  /** Paragraphs; text between backticks is set as code. */
  readonly paragraphs: readonly string[];
}

export const SIGNED_OUT: PlainPage = {
  title: 'Not signed in',
  paragraphs: [
    'Open the link that pdscope printed when it started.',
    'If it has been used already, run `pdscope link` on the machine where pdscope runs: it prints a new one.',
  ],
};

export const LINK_USED: PlainPage = {
  title: 'This link has been used',
  paragraphs: [
    'Each link signs in one browser, once, because links stay behind in histories.',
    'Run `pdscope link` on the machine where pdscope runs: it prints a new one.',
    'If it was you and this is the same browser, you are still signed in: open the address without /login.',
  ],
};

export const LINK_UNKNOWN: PlainPage = {
  title: 'This link is not known',
  paragraphs: [
    'It may be of an earlier start: pdscope makes new ones each time.',
    'Open the link it printed last, or run `pdscope link` on the machine where it runs.',
  ],
};

export const NOT_BUILT: PlainPage = {
  title: 'The page is not built',
  paragraphs: ['pdscope runs, but its page is missing. Run `npm run build` where it is installed, then reload.'],
};

export const PAGE_NOT_FOUND: PlainPage = {
  title: 'Nothing here',
  paragraphs: ['The dashboard is at the root of this address.'],
};

/** Policy of plain pages: a style block by hash would need upkeep, so they have none at all. */
export const PLAIN_PAGE_CSP = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function renderPlainPage({ title, paragraphs }: PlainPage): string {
  const body = paragraphs.map((text) => `<p>${text.replaceAll(/`([^`]+)`/gu, '<code>$1</code>')}</p>`).join('\n');
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>pdscope: ${title}</title></head>
<body><main><h1>${title}</h1>
${body}
</main></body>
</html>
`;
}
