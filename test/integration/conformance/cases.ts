/** What goes wrong in the conformance suite, and what the client must see of it. */
import type { SimFault } from '#shared/operations.ts';
import type { ConformanceApi, Mode } from './modes.ts';

export type Stage = 'encode' | 'render' | 'prefill' | 'decode';

export type Expected =
  /** An error body with this status; `code` is pdscope's. */
  | { readonly kind: 'refused'; readonly status: number; readonly code: string }
  /** Status 200, and a stream that ends with an error event and without [DONE], or a whole body that is cut. */
  | { readonly kind: 'broken' }
  /** The client left; whatever runs is stopped. */
  | { readonly kind: 'left' }
  /** The right answer, after a retry. */
  | { readonly kind: 'repeated' }
  /** The right answer, whether that takes the allowed retry or not. */
  | { readonly kind: 'right' }
  /** The right answer, or an error status, where it depends on who notices first. */
  | { readonly kind: 'right-or-refused' };

export interface Case {
  readonly name: string;
  /** Which leg it happens to. */
  readonly on: Stage;
  /** `slow`: only so that there is time for something. */
  readonly fault?: SimFault;
  readonly amount?: number;
  /** The leg is held back: for ever, or until something has happened. */
  readonly hold?: 'for-ever' | 'client-leaves' | 'prefill-restarts' | 'decode-restarts';
  /** The client leaves after its first chunk. */
  readonly leavesStreaming?: boolean;
  /** One retry is allowed; the fault stays with the first instance that is asked. */
  readonly retry?: 'on-other' | 'on-same';
  readonly expected: Expected;
}

const STATUS_400 = { kind: 'refused', status: 400, code: 'upstream_status' } as const;
const STATUS_500 = { kind: 'refused', status: 500, code: 'upstream_status' } as const;
const HANGS = { kind: 'refused', status: 504, code: 'headers_timeout' } as const;
const RESET = { kind: 'refused', status: 502, code: 'upstream_reset' } as const;
const EMPTY = { kind: 'refused', status: 502, code: 'empty_response' } as const;
const LEFT = { kind: 'left' } as const;
const REPEATED = { kind: 'repeated' } as const;
const RIGHT = { kind: 'right' } as const;

/** Chunks of a stream before the cut: there are more than these. */
const CUT_AFTER = 4;
/** Makes an answer of some milliseconds last for seconds, so that a client can leave in the middle of it. */
const SLOW = 300;

export const CASES = [
  { name: 'encode answers 400', on: 'encode', fault: 'error-400', expected: STATUS_400 },
  { name: 'encode answers 500', on: 'encode', fault: 'error-500', expected: STATUS_500 },
  { name: 'encode hangs', on: 'encode', hold: 'for-ever', expected: HANGS },
  { name: 'encode resets its connection', on: 'encode', fault: 'reset', expected: RESET },
  { name: 'encode answers an empty 200', on: 'encode', fault: 'empty-200', expected: EMPTY },
  { name: 'client leaves during encode', on: 'encode', hold: 'client-leaves', expected: LEFT },
  { name: 'encode answers 500, another one does not', on: 'encode', fault: 'error-500', retry: 'on-other', expected: REPEATED },

  { name: 'render answers 400', on: 'render', fault: 'error-400', expected: STATUS_400 },
  { name: 'render answers 500', on: 'render', fault: 'error-500', expected: STATUS_500 },
  { name: 'render hangs', on: 'render', hold: 'for-ever', expected: HANGS },
  { name: 'render resets its connection', on: 'render', fault: 'reset', expected: RESET },
  { name: 'client leaves during render', on: 'render', hold: 'client-leaves', expected: LEFT },
  { name: 'render answers 500, another one does not', on: 'render', fault: 'error-500', retry: 'on-other', expected: REPEATED },

  { name: 'prefill answers 400', on: 'prefill', fault: 'error-400', expected: STATUS_400 },
  { name: 'prefill answers 500', on: 'prefill', fault: 'error-500', expected: STATUS_500 },
  { name: 'prefill hangs', on: 'prefill', hold: 'for-ever', expected: HANGS },
  { name: 'prefill resets its connection', on: 'prefill', fault: 'reset', expected: RESET },
  { name: 'prefill answers an empty 200', on: 'prefill', fault: 'empty-200', expected: EMPTY },
  { name: 'client leaves during prefill', on: 'prefill', hold: 'client-leaves', expected: LEFT },
  { name: 'prefill answers 500, another one does not', on: 'prefill', fault: 'error-500', retry: 'on-other', expected: REPEATED },
  { name: 'prefill resets its connection, another one does not', on: 'prefill', fault: 'reset', retry: 'on-other', expected: REPEATED },

  { name: 'decode answers 400', on: 'decode', fault: 'error-400', expected: STATUS_400 },
  { name: 'decode answers 500', on: 'decode', fault: 'error-500', expected: STATUS_500 },
  { name: 'decode hangs', on: 'decode', hold: 'for-ever', expected: HANGS },
  { name: 'decode resets its connection', on: 'decode', fault: 'reset', expected: RESET },
  { name: 'decode resets mid-stream', on: 'decode', fault: 'reset-mid-stream', amount: CUT_AFTER, expected: { kind: 'broken' } },
  { name: 'decode answers an empty 200', on: 'decode', fault: 'empty-200', expected: EMPTY },
  { name: 'client leaves before decode answers', on: 'decode', hold: 'client-leaves', expected: LEFT },
  { name: 'client leaves while streaming', on: 'decode', fault: 'slow', amount: SLOW, leavesStreaming: true, expected: LEFT },
  { name: 'decode answers 400, though another one might not', on: 'decode', fault: 'error-400', retry: 'on-other', expected: STATUS_400 },
  { name: 'decode answers 500, another one does not', on: 'decode', fault: 'error-500', retry: 'on-other', expected: REPEATED },
  { name: 'decode answers 500 once, and is the only one', on: 'decode', fault: 'error-500', retry: 'on-same', expected: REPEATED },
  { name: 'decode resets its connection, another one does not', on: 'decode', fault: 'reset', retry: 'on-other', expected: REPEATED },
  { name: 'decode resets mid-stream, though another one would not', on: 'decode', fault: 'reset-mid-stream', amount: CUT_AFTER, retry: 'on-other', expected: { kind: 'broken' } },

  { name: 'prefill restarts between the legs', on: 'decode', hold: 'prefill-restarts', expected: STATUS_500 },
  { name: 'prefill restarts between the legs, one retry is allowed', on: 'decode', hold: 'prefill-restarts', retry: 'on-same', expected: RIGHT },
  { name: 'decode restarts between the legs', on: 'prefill', hold: 'decode-restarts', expected: RIGHT },
  { name: 'decode restarts between the legs, one retry is allowed', on: 'prefill', hold: 'decode-restarts', retry: 'on-same', expected: RIGHT },
] as const satisfies readonly Case[];

export type CaseName = (typeof CASES)[number]['name'];

/** Whether a case can happen at all in a mode. */
export function applies({ on, hold, leavesStreaming }: Case, mode: Mode, { api, isStream }: { readonly api: ConformanceApi; readonly isStream: boolean }): boolean {
  if (on === 'encode') return mode.hasMedia === true && api === 'chat';
  if (on === 'render') return mode.isTokenDriven === true;
  if (leavesStreaming === true) return isStream && mode.isReadWhole?.(isStream) !== true;
  return mode.legs !== 'one' || (on !== 'prefill' && hold !== 'prefill-restarts');
}

/** What the client must see of a case in a mode. */
export function expectedOf(each: Case & { readonly name: string }, mode: Mode, isStream: boolean): Expected {
  const different = mode.differences?.[each.name as CaseName]?.expected;
  if (different !== undefined) return different;
  if (each.expected.kind !== 'broken' || mode.isReadWhole?.(isStream) !== true) return each.expected;
  // Nothing has gone to the client yet.
  return each.retry === undefined ? RESET : REPEATED;
}

/** For the test's name. */
export function describeExpected(expected: Expected, isStream: boolean): string {
  if (expected.kind === 'refused') return `the client gets ${expected.status}`;
  if (expected.kind === 'broken') return isStream ? 'an error event ends the stream' : 'the body is cut';
  return OUTCOMES[expected.kind];
}

const OUTCOMES = {
  left: 'every engine stops',
  repeated: 'the right answer after a retry',
  right: 'the right answer',
  'right-or-refused': 'the right answer or an error',
} as const;
