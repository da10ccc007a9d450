/** Reading JSON fields as pydantic does: absent and null are the same, a wrong type is refused with its path. */
import { badRequest, validationError } from './api-error.ts';
import { VOCABULARY_SIZE } from './tokenizer.ts';

export type Body = Readonly<Record<string, unknown>>;

export function readInteger(body: Body, field: string): number | undefined {
  const value = body[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw validationError('int_parsing', [field], 'Input should be a valid integer');
  }
  return value;
}

export function readNumber(body: Body, field: string): number | undefined {
  const value = body[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number') throw validationError('float_parsing', [field], 'Input should be a valid number');
  return value;
}

/** Undefined when absent. */
export function readFlag(body: Body, field: string): boolean | undefined {
  const value = body[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'boolean') throw validationError('bool_parsing', [field], 'Input should be a valid boolean');
  return value;
}

export function readBoolean(body: Body, field: string): boolean {
  return readFlag(body, field) ?? false;
}

/** A string or a list of them; empty ones are dropped. */
export function readStrings(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value];
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string' && item !== '') : [];
}

export function checkTokens(tokens: readonly unknown[], field: string): number[] {
  return tokens.map((token) => {
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= VOCABULARY_SIZE) {
      throw badRequest(`Token id ${String(token)} is out of vocabulary`, field);
    }
    return token;
  });
}
