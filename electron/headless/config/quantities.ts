/** Durations, sizes and shapes as people write them on a command line or in a file. */
import type { z } from 'zod';
import { PdscopeError } from '#shared/errors.ts';
import { parseQuantity } from '#shared/filter/quantity.ts';
import { KvBytesPerTokenSchema, MAX_RANKS } from '#shared/instance.ts';

const BARE_NUMBER = /^\d+(?:\.\d+)?$/u;

/** `5s`, `500ms`, `10m`, `1h`; a bare number is seconds. Answers milliseconds. Throws PdscopeError `bad_usage`. */
export function parseDurationMs(text: string): number {
  const quantity = parseQuantity(BARE_NUMBER.test(text) ? `${text}s` : text, 'ms');
  if (quantity === undefined || quantity.value <= 0) {
    throw new PdscopeError('bad_usage', `"${text}" is not a duration; write 500ms, 5s, 10m or 1h (a bare number is seconds).`);
  }
  return Math.round(quantity.value);
}

/** A reader of durations that `schema`, of milliseconds, takes: what does not fit is told as it was written, not as the engine calls it. */
export function durationFor(schema: z.ZodType): (text: string) => number {
  return (text) => within(schema, { text, value: parseDurationMs(text), write: writeDuration, note: ' (a bare number is seconds)' });
}

/** As `durationFor`, for sizes in bytes. */
export function bytesFor(schema: z.ZodType): (text: string) => number {
  return (text) => within(schema, { text, value: parseBytes(text), write: (bytes) => `${bytes} bytes`, note: '' });
}

interface Written {
  readonly text: string;
  readonly value: number;
  readonly write: (value: number) => string;
  readonly note: string;
}

function within(schema: z.ZodType, { text, value, write, note }: Written): number {
  const [issue] = schema.safeParse(value).error?.issues ?? [];
  if (issue === undefined) return value;
  const bound = issue.code === 'too_big' ? `at most ${write(Number(issue.maximum))}` : issue.code === 'too_small' ? `at least ${write(Number(issue.minimum))}` : issue.message;
  throw new PdscopeError('bad_usage', `"${text}" is ${write(value)}${note}; it must be ${bound}.`);
}

const DURATION_UNITS = [[3_600_000, 'h'], [60_000, 'm'], [1000, 's']] as const;

function writeDuration(ms: number): string {
  const [unitMs, unit] = DURATION_UNITS.find(([one]) => ms >= one && ms % one === 0) ?? [1, 'ms'];
  return `${ms / unitMs}${unit}`;
}

/** `64MB`, `64MiB`, `512k`; a bare number is bytes. Throws PdscopeError `bad_usage`. */
export function parseBytes(text: string): number {
  const quantity = parseQuantity(text, 'bytes');
  if (quantity === undefined || quantity.value < 1) {
    throw new PdscopeError('bad_usage', `"${text}" is not a size; write 64MB, 64MiB or a number of bytes.`);
  }
  return Math.round(quantity.value);
}

export interface DemoShape {
  readonly encode: number;
  readonly prefill: number;
  readonly decode: number;
  readonly both: number;
}

const SHAPE_ROLES = { e: 'encode', p: 'prefill', d: 'decode', b: 'both' } as const;

/** `2P3D`, `1E4P4D`, `2B`: how many of each role. Throws PdscopeError `bad_usage`. */
export function parseDemoShape(text: string): DemoShape {
  const problem = new PdscopeError('bad_usage', `"${text}" is not a shape; write how many of each role, e.g. 2P3D, 1E4P4D or 2B (at most 64 each).`);
  if (!/^(?:\d{1,2}[epdb])+$/iu.test(text)) throw problem;
  const shape = { encode: 0, prefill: 0, decode: 0, both: 0 };
  for (const [, count = '', letter = ''] of text.toLowerCase().matchAll(/(\d+)([epdb])/gu)) {
    const role = SHAPE_ROLES[letter as keyof typeof SHAPE_ROLES];
    if (shape[role] !== 0) throw problem;
    shape[role] = Number(count);
  }
  const canServe = shape.both > 0 || (shape.prefill > 0 && shape.decode > 0);
  if (!canServe || Object.values(shape).some((count) => count > 64)) throw problem;
  return shape;
}

export interface DpSizeAssignment {
  /** Name (`P0`) or address of the instance. */
  readonly instance: string;
  readonly ranks: number;
}

/**
 * What repeated options give to instances, by name. Throws PdscopeError `bad_usage` when one is given twice: which of both
 * was meant nobody can tell.
 */
export function byInstance<T>(option: string, given: readonly (readonly [instance: string, value: T])[]): Record<string, T> {
  const seen = new Set<string>();
  for (const [instance] of given) {
    if (seen.has(instance.toLowerCase())) throw new PdscopeError('bad_usage', `--${option} ${instance}: given twice; leave one of them out.`);
    seen.add(instance.toLowerCase());
  }
  return Object.fromEntries(given);
}

/** `P0=4`, `10.0.0.1:8100=2`: data-parallel ranks of an instance. Throws PdscopeError `bad_usage`. */
export function parseDpSize(text: string): DpSizeAssignment {
  const at = text.lastIndexOf('=');
  const ranks = /^\d{1,4}$/u.test(text.slice(at + 1)) ? Number(text.slice(at + 1)) : 0;
  if (at < 1 || ranks < 1 || ranks > MAX_RANKS) {
    throw new PdscopeError('bad_usage', `"${text}" gives no instance its ranks; write <instance>=<1 to ${MAX_RANKS}>, e.g. D0=4 or 10.0.0.2:8200=4.`);
  }
  return { instance: text.slice(0, at), ranks };
}

export interface KvBytesAssignment {
  /** Name (`P0`) or address of the instance. */
  readonly instance: string;
  readonly bytes: number;
}

/** `P0=147456`, `10.0.0.1:8100=144KiB`: KV bytes per token of an instance. Throws PdscopeError `bad_usage`. */
export function parseKvBytes(text: string): KvBytesAssignment {
  const at = text.lastIndexOf('=');
  const quantity = parseQuantity(text.slice(at + 1), 'bytes');
  const bytes = KvBytesPerTokenSchema.safeParse(quantity?.value);
  if (at < 1 || !bytes.success) {
    throw new PdscopeError('bad_usage', `"${text}" gives no instance its KV bytes per token; write <instance>=<1 to 64MiB>, e.g. D0=147456 or 10.0.0.2:8200=144KiB.`);
  }
  return { instance: text.slice(0, at), bytes: bytes.data };
}
