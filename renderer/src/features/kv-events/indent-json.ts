/**
 * Indents JSON text without parsing it: hashes of 64 bits keep every digit, and text that was cut stays readable. Arrays
 * and objects without others inside stay on one line, so that a block's tokens are a line and not a page.
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
      const flat = flatPart(text, at);
      if (flat === undefined) {
        depth += 1;
        out += char + newLine();
      } else {
        out += flat.line;
        at = flat.end - 1;
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

/** A list of strings longer than this has a line for each. */
const LONGEST_STRINGS = 96;

/** An array or object at `from` that holds no other, as one line, and what is behind it; undefined when it does, was cut, or has many strings. */
function flatPart(text: string, from: number): { readonly line: string; readonly end: number } | undefined {
  let line = text[from] ?? '';
  let hasString = false;
  for (let at = from + 1; at < text.length; at += 1) {
    const char = text[at] ?? '';
    if (char === '[' || char === '{' || (hasString && line.length > LONGEST_STRINGS)) return undefined;
    if (char === ']' || char === '}') return { line: line + char, end: at + 1 };
    if (char === '"') {
      const end = stringEnd(text, at);
      line += text.slice(at, end);
      hasString = true;
      at = end - 1;
    } else if (char === ',' || char === ':') line += `${char} `;
    else if (!/\s/u.test(char)) line += char;
  }
  return undefined;
}
