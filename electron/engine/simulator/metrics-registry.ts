/**
 * A Prometheus registry that writes the way vLLM's does (prometheus_client, single process): Python floats, `le` inside
 * sorted labels, and a `_created` gauge family behind each counter and histogram family.
 */

export type Labels = Readonly<Record<string, string>>;

export interface Counter {
  inc(amount?: number): void;
  value(): number;
}

export interface Histogram {
  observe(value: number): void;
  count(): number;
}

interface FamilyBase {
  readonly name: string;
  readonly help: string;
}
interface CounterFamily extends FamilyBase {
  readonly type: 'counter';
  readonly series: { readonly labels: Labels; value: number; readonly createdAtS: number }[];
}
interface GaugeFamily extends FamilyBase {
  readonly type: 'gauge';
  readonly series: { readonly labels: Labels; readonly read: () => number }[];
}
interface HistogramFamily extends FamilyBase {
  readonly type: 'histogram';
  readonly bounds: readonly number[];
  readonly series: { readonly labels: Labels; readonly counts: number[]; sum: number; total: number; readonly createdAtS: number }[];
}
type Family = CounterFamily | GaugeFamily | HistogramFamily;

/** A float as Python's prometheus_client prints it: `1.0`, `2.097152e+06`, `+Inf`. */
export function formatFloat(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  if (Number.isNaN(value)) return 'NaN';
  const text = String(value);
  if (text.includes('e')) return text;
  const plain = text.includes('.') ? text : `${text}.0`;
  const dot = plain.indexOf('.');
  if (value <= 0 || dot <= 6) return plain;
  const mantissa = `${plain.charAt(0)}.${plain.slice(1, dot)}${plain.slice(dot + 1)}`.replace(/[0.]+$/u, '');
  return `${mantissa}e+0${dot - 1}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}

function labelText(labels: Labels): string {
  const names = Object.keys(labels).sort();
  if (names.length === 0) return '';
  return `{${names.map((name) => `${name}="${escapeLabel(labels[name] ?? '')}"`).join(',')}}`;
}

export class MetricsRegistry {
  readonly #families = new Map<string, Family>();

  counter(name: string, help: string, labels: Labels): Counter {
    const family = this.#family({ type: 'counter', name, help, series: [] });
    const series = { labels, value: 0, createdAtS: Date.now() / 1000 };
    family.series.push(series);
    return {
      inc(amount = 1) {
        series.value += amount;
      },
      value: () => series.value,
    };
  }

  /** `read` is called at each scrape. */
  gauge(name: string, help: string, labels: Labels, read: () => number): void {
    this.#family({ type: 'gauge', name, help, series: [] }).series.push({ labels, read });
  }

  histogram(name: string, help: string, labels: Labels, bounds: readonly number[]): Histogram {
    const family = this.#family({ type: 'histogram', name, help, bounds, series: [] });
    const series = { labels, counts: bounds.map(() => 0), sum: 0, total: 0, createdAtS: Date.now() / 1000 };
    family.series.push(series);
    return {
      observe(value) {
        series.sum += value;
        series.total += 1;
        const bucket = bounds.findIndex((bound) => value <= bound);
        if (bucket >= 0) series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
      },
      count: () => series.total,
    };
  }

  /** Text exposition format 0.0.4. `hidden`: names of families left out. */
  render(hidden: readonly string[] = []): string {
    const lines: string[] = [];
    for (const family of this.#families.values()) {
      if (hidden.includes(family.name)) continue;
      lines.push(`# HELP ${family.name} ${family.help}`, `# TYPE ${family.name} ${family.type}`);
      switch (family.type) {
        case 'counter':
          for (const { labels, value } of family.series) lines.push(`${family.name}${labelText(labels)} ${formatFloat(value)}`);
          break;
        case 'gauge':
          for (const { labels, read } of family.series) lines.push(`${family.name}${labelText(labels)} ${formatFloat(read())}`);
          break;
        case 'histogram':
          for (const series of family.series) renderHistogram(family, series, lines);
          break;
      }
      if (family.type !== 'gauge') renderCreated(family, lines);
    }
    return `${lines.join('\n')}\n`;
  }

  #family<T extends Family['type']>(fresh: Extract<Family, { type: T }> & { readonly type: T }): Extract<Family, { type: T }> {
    const known = this.#families.get(fresh.name);
    if (known === undefined) {
      this.#families.set(fresh.name, fresh);
      return fresh;
    }
    if (known.type !== fresh.type) throw new Error(`metric ${fresh.name} is a ${known.type}, not a ${fresh.type}`);
    return known as Extract<Family, { type: T }>;
  }
}

function renderHistogram(family: HistogramFamily, series: HistogramFamily['series'][number], lines: string[]): void {
  let cumulative = 0;
  for (const [index, bound] of family.bounds.entries()) {
    cumulative += series.counts[index] ?? 0;
    lines.push(`${family.name}_bucket${labelText({ ...series.labels, le: formatFloat(bound) })} ${formatFloat(cumulative)}`);
  }
  lines.push(
    `${family.name}_bucket${labelText({ ...series.labels, le: '+Inf' })} ${formatFloat(series.total)}`,
    `${family.name}_count${labelText(series.labels)} ${formatFloat(series.total)}`,
    `${family.name}_sum${labelText(series.labels)} ${formatFloat(series.sum)}`,
  );
}

function renderCreated(family: CounterFamily | HistogramFamily, lines: string[]): void {
  const name = `${family.name.replace(family.type === 'counter' ? /_total$/u : /$^/u, '')}_created`;
  lines.push(`# HELP ${name} ${family.help}`, `# TYPE ${name} gauge`);
  for (const { labels, createdAtS } of family.series) lines.push(`${name}${labelText(labels)} ${formatFloat(createdAtS)}`);
}
