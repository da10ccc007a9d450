/** A small JSON value that fits a JSON schema: what a constrained model would write. Knows the common keywords only. */
import type { Prng } from './prng.ts';
import { WORDS } from './words.ts';

/** Deeper schemas (also recursive ones) end in null. */
const MAX_DEPTH = 6;
const MAX_PROPERTIES = 32;

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function words(prng: Prng, count: number): string {
  return Array.from({ length: count }, () => WORDS[prng.int(WORDS.length)] ?? 'word').join(' ');
}

function sampleNumber(schema: Readonly<Record<string, unknown>>, prng: Prng): number {
  const low = typeof schema['minimum'] === 'number' ? schema['minimum'] : 0;
  const high = typeof schema['maximum'] === 'number' ? schema['maximum'] : low + 100;
  return low + prng.next() * Math.max(0, high - low);
}

function sampleAt(schema: unknown, prng: Prng, depth: number): unknown {
  if (!isRecord(schema) || depth > MAX_DEPTH) return null;
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return (schema['enum'] as unknown[])[prng.int(schema['enum'].length)] ?? null;
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    const options = schema[key];
    if (Array.isArray(options) && options.length > 0) return sampleAt(options[0], prng, depth + 1);
  }
  const declared: unknown = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  const type = declared ?? (isRecord(schema['properties']) ? 'object' : 'string');
  switch (type) {
    case 'object': {
      const properties = isRecord(schema['properties']) ? Object.entries(schema['properties']) : [];
      return Object.fromEntries(
        properties.slice(0, MAX_PROPERTIES).map(([name, inner]) => [name, sampleAt(inner, prng, depth + 1)]),
      );
    }
    case 'array':
      return Array.from({ length: 1 + prng.int(2) }, () => sampleAt(schema['items'], prng, depth + 1));
    case 'integer':
      return Math.round(sampleNumber(schema, prng));
    case 'number':
      return Math.round(sampleNumber(schema, prng) * 100) / 100;
    case 'boolean':
      return prng.next() < 0.5;
    case 'string':
      return words(prng, 1 + prng.int(3));
    default:
      return null;
  }
}

/** A value for `schema`; without one, an answer object. */
export function sampleJson(schema: unknown, prng: Prng): unknown {
  if (!isRecord(schema)) return { answer: words(prng, 4 + prng.int(6)), confidence: Math.round(prng.next() * 100) / 100 };
  return sampleAt(schema, prng, 0);
}
