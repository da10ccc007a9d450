/** The YAML configuration file: read, validated, and every problem told with file, line and column. */
import { readFile } from 'node:fs/promises';
import { isMap, isNode, isScalar, LineCounter, parseDocument, type Document } from 'yaml';
import type { z } from 'zod';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { nearest } from '#shared/filter/near.ts';
import { ALLOWED, SERVE_CONFIG_KEYS, ServeConfigSchema, type ServeConfig, type ServeConfigKey } from './serve-config.ts';

/** A file larger than this is not a configuration of pdscope. */
const MAX_FILE_BYTES = 1024 * 1024;
/** Problems told at once. */
const MAX_PROBLEMS = 20;

/** Reads and validates a file. Throws PdscopeError `bad_config` with one `file:line:column: problem` per line. */
export async function readConfigFile(path: string): Promise<ServeConfig> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new PdscopeError('bad_config', `Cannot read the configuration ${path}: ${errorMessage(error)}`, { cause: error });
  }
  return parseConfig(text, path);
}

/** As `readConfigFile`, for text; `path` is what messages call it. */
export function parseConfig(text: string, path: string): ServeConfig {
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) throw new PdscopeError('bad_config', `${path} is larger than 1 MiB; that is no configuration.`);
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: true });
  const at = (offset: number | undefined): string => {
    const { line, col } = lineCounter.linePos(offset ?? 0);
    return `${path}:${line}:${col}`;
  };
  if (document.errors.length > 0) {
    throw badConfig(document.errors.map((problem) => `${at(problem.pos[0])}: ${problem.message}`));
  }
  const parsed = ServeConfigSchema.safeParse(contentOf(document, path) ?? {});
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.flatMap((issue) => describe(issue, document, at));
  throw badConfig(problems);
}

/** The plain value. Aliases are bounded, so that a small file cannot grow without bound. */
function contentOf(document: Document, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw badConfig([`${path}: ${errorMessage(error)}`]);
  }
}

function badConfig(problems: readonly string[]): PdscopeError {
  const shown = problems.slice(0, MAX_PROBLEMS);
  const rest = problems.length - shown.length;
  return new PdscopeError('bad_config', [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join('\n'));
}

function describe(issue: z.core.$ZodIssue, document: Document, at: (offset: number | undefined) => string): readonly string[] {
  const path = issue.path.filter((part) => typeof part !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => `${at(keyOffset(document, path, key))}: ${unknownKey(path, key)}`);
  }
  const [top] = path;
  const allowed = typeof top === 'string' && Object.hasOwn(ALLOWED, top) ? `; allowed: ${ALLOWED[top as ServeConfigKey]}` : '';
  const name = path.length === 0 ? 'the file' : path.join('.');
  return [`${at(valueOffset(document, path))}: ${name}: ${plainMessage(issue)}${allowed}`];
}

/** Of a union the reason of the branch that got furthest; "Invalid input" alone helps nobody. */
function plainMessage(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_union') return issue.message;
  const reasons = issue.errors.map((branch) => branch.at(0)).filter((reason) => reason !== undefined);
  const furthest = reasons.find((reason) => reason.code !== 'invalid_type' || reason.path.length > 0);
  if (furthest === undefined) return 'is not of an allowed form';
  if (furthest.code === 'unrecognized_keys') return `has unknown ${furthest.keys.map((key) => `"${key}"`).join(', ')}`;
  return [furthest.path.join('.'), plainMessage(furthest)].filter((part) => part !== '').join(': ');
}

function unknownKey(path: readonly (string | number)[], key: string): string {
  if (path.length > 0) return `${path.join('.')} has no key "${key}"`;
  const near = nearest(key, SERVE_CONFIG_KEYS);
  return `there is no key "${key}"${near === undefined ? `; allowed: ${SERVE_CONFIG_KEYS.join(', ')}` : `; did you mean ${near}?`}`;
}

function keyOffset(document: Document, path: readonly (string | number)[], key: string): number | undefined {
  const parent = path.length === 0 ? document.contents : document.getIn(path, true);
  if (!isMap(parent)) return undefined;
  for (const { key: node } of parent.items) if (isScalar(node) && String(node.value) === key) return node.range?.[0];
  return undefined;
}

/** Offset of the value at a path, or of the nearest thing around it that is in the file. */
function valueOffset(document: Document, path: readonly (string | number)[]): number | undefined {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range !== undefined && node.range !== null) return node.range[0];
  }
  return document.contents?.range?.[0];
}
