/** What goes wrong in the conformance suite, and what the client must see of it. */
import type { SimFault } from '#shared/operations.ts';
import type { Mode } from './modes.ts';

export type Broken =
  /** An error body with this status. */
  | { readonly kind: 'refused'; readonly status: number; readonly code?: string }
  /** Status 200 and a stream that ends with an error event and without [DONE]; a whole body that is cut. */
  | { readonly kind: 'broken' }
  /** The client left; whatever runs is stopped. */
  | { readonly kind: 'left' }
  /** Either the right answer or an error status, soon. */
  | { readonly kind: 'right-or-refused' };

export interface Case {
  readonly name: string;
  readonly on: 'prefill' | 'decode';
  /** Fault of the simulated instance. */
  readonly fault?: SimFault;
  /** Chunks of a stream before the cut. */
  readonly amount?: number;
  /** The instance's request is held back: for ever, or until something has happened. */
  readonly gate?: 'hang' | 'client-leaves' | 'restart-prefill';
  /** The client leaves after the first chunk. */
  readonly leavesStreaming?: boolean;
  readonly expected: Broken;
}

export const CASES: readonly Case[] = [
  { name: 'prefill answers 400', on: 'prefill', fault: 'error-400', expected: { kind: 'refused', status: 400 } },
  { name: 'prefill answers 500', on: 'prefill', fault: 'error-500', expected: { kind: 'refused', status: 500 } },
  { name: 'prefill hangs', on: 'prefill', gate: 'hang', expected: { kind: 'refused', status: 504 } },
  { name: 'prefill resets its connection', on: 'prefill', fault: 'reset', expected: { kind: 'refused', status: 502 } },
  { name: 'prefill answers an empty 200', on: 'prefill', fault: 'empty-200', expected: { kind: 'refused', status: 502, code: 'empty_response' } },
  { name: 'decode answers 400', on: 'decode', fault: 'error-400', expected: { kind: 'refused', status: 400 } },
  { name: 'decode answers 500', on: 'decode', fault: 'error-500', expected: { kind: 'refused', status: 500 } },
  { name: 'decode resets its connection', on: 'decode', fault: 'reset', expected: { kind: 'refused', status: 502 } },
  { name: 'decode resets mid-stream', on: 'decode', fault: 'reset-mid-stream', amount: 4, expected: { kind: 'broken' } },
  { name: 'decode answers an empty 200', on: 'decode', fault: 'empty-200', expected: { kind: 'refused', status: 502, code: 'empty_response' } },
  { name: 'client leaves during prefill', on: 'prefill', gate: 'client-leaves', expected: { kind: 'left' } },
  { name: 'client leaves before decode answers', on: 'decode', gate: 'client-leaves', expected: { kind: 'left' } },
  { name: 'client leaves while streaming', on: 'decode', leavesStreaming: true, expected: { kind: 'left' } },
  { name: 'prefill restarts between the legs', on: 'decode', gate: 'restart-prefill', expected: { kind: 'right-or-refused' } },
];

/** Whether a case can happen at all in a mode. */
export function applies({ on, gate, leavesStreaming }: Case, mode: Mode, isStream: boolean): boolean {
  const needsPrefill = on === 'prefill' || gate === 'restart-prefill';
  return !(needsPrefill && mode.legs === 'one') && !(leavesStreaming === true && !isStream);
}
