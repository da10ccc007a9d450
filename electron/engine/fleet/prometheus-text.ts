/**
 * Parses the Prometheus text exposition format 0.0.4 and what OpenMetrics adds to it, from an untrusted server. Bad
 * lines cost themselves and are counted. Lines of unwanted metrics are skipped before they are parsed: a page of a real
 * engine has over a thousand lines, and a fleet is scraped every two seconds on the event loop that streams tokens.
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats/
 */
import { PdscopeError } from '#shared/errors.ts';

export interface MetricSample {
  /** As exposed, suffix included: `vllm:prompt_tokens_total`, `vllm:iteration_tokens_total_bucket`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** NaN and infinities as they are. */
  readonly value: number;
}

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary' | 'untyped';

export interface MetricsPage {
  readonly samples: readonly MetricSample[];
  /** From `# TYPE` lines of wanted names. A histogram may be called `*_total` (vLLM: iteration_tokens_total). */
  readonly types: ReadonlyMap<string, MetricType>;
  /** Lines that were not understood, or had too many labels. */
  readonly badLines: number;
}

export interface ParseOptions {
  /** Decides by sample name whether a line is parsed. Default: all. */
  readonly wants?: (name: string) => boolean;
  /** Characters. Default 16 Mi. */
  readonly maxChars?: number;
  /** Default 200,000. */
  readonly maxLines?: number;
  /** Labels of one sample. Default 128: vLLM's cache_config_info carries every key of its configuration. */
  readonly maxLabels?: number;
  /** Characters of one line. Default 64 Ki. */
  readonly maxLineChars?: number;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;
const LABEL_NAME = /[a-zA-Z_][a-zA-Z0-9_]*/y;
const VALUE = /^[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)$/i;
const TYPES: ReadonlySet<string> = new Set(['counter', 'gauge', 'histogram', 'summary', 'untyped']);

/** @throws PdscopeError `metrics_too_large` when the page exceeds a limit on its whole size. */
export function parsePrometheusText(text: string, options: ParseOptions = {}): MetricsPage {
  const { wants, maxChars = 16 * 1024 * 1024, maxLines = 200_000, maxLabels = 128, maxLineChars = 64 * 1024 } = options;
  if (text.length > maxChars) throw new PdscopeError('metrics_too_large', `the metrics page has ${text.length} characters, more than ${maxChars}`);
  const samples: MetricSample[] = [];
  const types = new Map<string, MetricType>();
  let badLines = 0;
  let lines = 0;
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start);
    const end = newline === -1 ? text.length : newline;
    lines += 1;
    if (lines > maxLines) throw new PdscopeError('metrics_too_large', `the metrics page has more than ${maxLines} lines`);
    if (text.charCodeAt(start) === 35) {
      if (text.startsWith('# TYPE ', start)) readType(text.slice(start, end), types, wants);
    } else if (end > start) {
      const name = nameAt(text, start, end);
      const isWanted = name === undefined || wants === undefined || wants(name);
      if (isWanted) {
        const line = text.slice(start, end).trim();
        if (line !== '') {
          const sample = line.length > maxLineChars ? undefined : parseSample(line, maxLabels);
          if (sample === undefined) badLines += 1;
          else samples.push(sample);
        }
      }
    }
    start = end + 1;
  }
  return { samples, types, badLines };
}

/** The name that a line starts with, found without copying the line. */
function nameAt(text: string, start: number, end: number): string | undefined {
  let at = start;
  while (at < end) {
    const code = text.charCodeAt(at);
    if (code === 123 /* { */ || code === 32 || code === 9) break;
    at += 1;
  }
  return at === start ? undefined : text.slice(start, at);
}

function readType(line: string, types: Map<string, MetricType>, wants: ParseOptions['wants']): void {
  const [, , name, type] = line.trim().split(/\s+/);
  if (name === undefined || type === undefined) return;
  // `unknown` is OpenMetrics' word for untyped.
  const known = type === 'unknown' ? 'untyped' : type;
  if (TYPES.has(known) && (wants === undefined || wants(name))) types.set(name, known as MetricType);
}

function parseSample(line: string, maxLabels: number): MetricSample | undefined {
  const name = NAME.exec(line)?.[0];
  if (name === undefined) return undefined;
  let rest = name.length;
  while (line[rest] === ' ' || line[rest] === '\t') rest += 1;
  let labels: Record<string, string> = {};
  if (line[rest] === '{') {
    const parsed = parseLabels(line, rest + 1, maxLabels);
    if (parsed === undefined) return undefined;
    labels = parsed.labels;
    rest = parsed.end;
  }
  const value = parseValue(line.slice(rest));
  return value === undefined ? undefined : { name, labels, value };
}

/** Reads `name="value",...}` from `from`; escapes are `\\`, `\"` and `\n`. `end` is behind the brace. */
function parseLabels(line: string, from: number, maxLabels: number): { labels: Record<string, string>; end: number } | undefined {
  // Without a prototype, a label called `__proto__` is a label like any other.
  const labels = Object.create(null) as Record<string, string>;
  let at = skipBlanks(line, from);
  for (let count = 0; ; count += 1) {
    if (line[at] === '}') return { labels, end: at + 1 };
    if (count >= maxLabels) return undefined;
    LABEL_NAME.lastIndex = at;
    const label = LABEL_NAME.exec(line)?.[0];
    if (label === undefined) return undefined;
    at = skipBlanks(line, at + label.length);
    if (line[at] !== '=') return undefined;
    at = skipBlanks(line, at + 1);
    if (line[at] !== '"') return undefined;
    const value = readQuoted(line, at + 1);
    if (value === undefined) return undefined;
    labels[label] = value.text;
    at = skipBlanks(line, value.end);
    if (line[at] === ',') at = skipBlanks(line, at + 1);
    else if (line[at] !== '}') return undefined;
  }
}

function readQuoted(line: string, from: number): { text: string; end: number } | undefined {
  let text = '';
  let start = from;
  for (let at = from; at < line.length; at += 1) {
    const char = line[at];
    if (char === '"') return { text: text + line.slice(start, at), end: at + 1 };
    if (char !== '\\') continue;
    const next = line[at + 1];
    const unescaped = next === 'n' ? '\n' : next === '\\' || next === '"' ? next : `\\${next ?? ''}`;
    text += line.slice(start, at) + unescaped;
    at += 1;
    start = at + 1;
  }
  return undefined;
}

/** The value; a timestamp and an OpenMetrics exemplar (`# {...}`) behind it are ignored. */
function parseValue(text: string): number | undefined {
  const token = text.trim().split(/\s+/, 1)[0] ?? '';
  if (!VALUE.test(token)) return undefined;
  const lower = token.toLowerCase();
  if (lower.endsWith('nan')) return Number.NaN;
  if (lower.includes('inf')) return lower.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(token);
}

function skipBlanks(line: string, from: number): number {
  let at = from;
  while (line[at] === ' ' || line[at] === '\t') at += 1;
  return at;
}
