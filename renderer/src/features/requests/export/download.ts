/** Hands text to the browser as a file. */
export function downloadText(name: string, mimeType: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: mimeType }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The click has taken the URL by then; without this the text stays in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(url), 0);
}

/** `pdscope-requests-2026-11-21T00-09-04-000Z.har`: sorts by time and is a file name on every system. */
export function exportFileName(what: string, extension: string): string {
  return `pdscope-${what}-${new Date().toISOString().replaceAll(/[:.]/gu, '-')}.${extension}`;
}
