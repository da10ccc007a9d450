/**
 * Cuts a JSON value from outside to a size that may be kept and shown. What was left out is said in its place. Text that
 * holds JSON is parsed, with integers beyond 2^53 as strings, so that a 64-bit id is shown as it was.
 */
const MAX_NODES = 512;
const MAX_STRING = 2000;
const MAX_DEPTH = 16;
/** JSON text beyond this is shown as cut text. */
const MAX_JSON_CHARS = 1024 * 1024;

/** Room for the words that say what was left out, so that cutting a cut text changes nothing. */
const MARK_CHARS = 40;

/** What `boundValue` made: cutting it again would count what is missing from the wrong whole. */
const alreadyBounded = new WeakSet<object>();

export function boundValue(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && alreadyBounded.has(value)) return value;
  if (typeof value === 'object' && !Buffer.isBuffer(value) && nodesLeft(value, MAX_NODES, 0) > 0) return value;
  const budget = { nodes: MAX_NODES };
  const result = cut(typeof value === 'string' || Buffer.isBuffer(value) ? parseExact(value.toString()) : value, budget, 0);
  if (typeof result === 'object' && result !== null) alreadyBounded.add(result);
  return result;
}

/** About how many bytes a bounded value takes in memory. */
export function sizeOfValue(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length;
  if (Array.isArray(value)) return value.reduce<number>((total, item) => total + sizeOfValue(item), 32);
  if (typeof value !== 'object' || value === null) return 8;
  return Object.entries(value).reduce((total, [key, item]) => total + key.length + 16 + sizeOfValue(item), 64);
}

/** What is left of a budget of nodes after `value`; 0 or less when something in it must be cut. Allocates nothing. */
function nodesLeft(value: unknown, budget: number, depth: number): number {
  let left = budget - 1;
  if (typeof value === 'string') return value.length > MAX_STRING ? 0 : left;
  if (typeof value === 'bigint') return 0;
  if (typeof value !== 'object' || value === null) return left;
  if (depth >= MAX_DEPTH) return 0;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left > 0; index += 1) left = nodesLeft((value as readonly unknown[])[index], left, depth + 1);
    return left;
  }
  const object = value as Readonly<Record<string, unknown>>;
  for (const key in object) if (Object.hasOwn(object, key) && left > 0) left = nodesLeft(object[key], left, depth + 1);
  return left;
}

function parseExact(text: string): unknown {
  if (text.length > MAX_JSON_CHARS || !/^\s*[[{]/.test(text)) return text;
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (token) => (token.startsWith('"') ? token : `"${token}"`));
  try {
    return JSON.parse(quoted);
  } catch {
    return text;
  }
}

function cutText(text: string): string {
  if (text.length <= MAX_STRING) return text;
  const kept = MAX_STRING - MARK_CHARS;
  return `${text.slice(0, kept)}... ${text.length - kept} more characters`;
}

function cut(value: unknown, budget: { nodes: number }, depth: number): unknown {
  budget.nodes -= 1;
  if (typeof value === 'string') return cutText(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MAX_DEPTH) return '... nested deeper';
  if (Array.isArray(value)) {
    const kept: unknown[] = [];
    for (const item of value as readonly unknown[]) {
      if (budget.nodes <= 0) {
        kept.push(`... ${value.length - kept.length} more`);
        break;
      }
      kept.push(cut(item, budget, depth + 1));
    }
    return kept;
  }
  const entries = Object.entries(value);
  const kept: [string, unknown][] = [];
  for (const [key, item] of entries) {
    if (budget.nodes <= 0) {
      kept.push(['...', `${entries.length - kept.length} more`]);
      break;
    }
    kept.push([key, cut(item, budget, depth + 1)]);
  }
  return Object.fromEntries(kept);
}
