/** Parsers for commander: what they throw is printed beside the option's name and ends with exit code 2. */
import { InvalidArgumentError } from 'commander';
import { errorMessage } from '#shared/errors.ts';

/** Turns a parser that throws into one that commander reports. */
export function reading<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      throw new InvalidArgumentError(errorMessage(error));
    }
  };
}

/** A whole number within bounds, both allowed. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^-?\d+$/u.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}

/** A number within bounds, both allowed. */
export function decimal(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
    return value;
  };
}

export const portNumber = wholeNumber(0, 65_535);

/** Collects a repeated option, read by `parse`. */
export function repeated<T>(parse: (text: string) => T): (text: string, previous: readonly T[] | undefined) => readonly T[] {
  return (text, previous) => [...(previous ?? []), reading(parse)(text)];
}
