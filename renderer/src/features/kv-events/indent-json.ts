/**
 * Indents JSON text without parsing it: hashes of 64 bits keep every digit, and text that was cut stays readable. Arrays
 * without arrays or objects inside stay on one line, so that a block's tokens are a line and not a page.
 */
export function indentJson(text: string): string {
  let out = '';
  let depth = 0;
  const newLine = (): string => `\n${'  '.repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? '';
    if (char === '"') {
      const end = stringEnd(text, at);
      out += text.slice(at, end);
      at = end - 1;
    } else if (char === '[' || char === '{') {
      const end = flatEnd(text, at);
      if (end === undefined) {
        depth += 1;
        out += char + newLine();
      } else {
        out += text.slice(at, end).replaceAll(/,(?=\S)/gu, ', ');
        at = end - 1;
      }
    } else if (char === ']' || char === '}') {
      depth = Math.max(0, depth - 1);
      out += newLine() + char;
    } else if (char === ',') out += char + newLine();
    else if (char === ':') out += ': ';
    else if (!/\s/u.test(char)) out += char;
  }
  return out;
}

/** Behind the string that begins at `from`, or the end of a text that was cut inside it. */
function stringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

/** Behind an array or object at `from` that holds neither arrays, objects nor strings; undefined when it does, or was cut. */
function flatEnd(text: string, from: number): number | undefined {
  for (let at = from + 1; at < text.length; at += 1) {
    const char = text[at];
    if (char === ']' || char === '}') return at + 1;
    if (char === '[' || char === '{' || char === '"') return undefined;
  }
  return undefined;
}
