/** Timeouts of upstream legs, milliseconds. The defaults suit LLMs: a long prompt may take minutes to its first byte. */
export interface ProxyTimeouts {
  /** Until a connection stands and the request is being sent. Default 10,000. */
  readonly connectMs: number;
  /**
   * From the request to the head of the answer. Default 600,000. A whole (not streamed) answer of a decode or
   * forward leg has its head only after its last token: three times as long.
   */
  readonly headersMs: number;
  /** Between two chunks of an answer; also how long a client may leave its stream unread. Default 300,000. */
  readonly idleMs: number;
}

export const DEFAULT_TIMEOUTS: ProxyTimeouts = { connectMs: 10_000, headersMs: 600_000, idleMs: 300_000 };

/** See `headersMs`. */
export const WHOLE_ANSWER_FACTOR = 3;
