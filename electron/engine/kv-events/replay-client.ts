/**
 * Asks an engine's replay socket for batches it published before (vllm/distributed/kv_events.py, since 2025-04; the
 * topic frame since 2026-07-07). The engine answers `start sequence` with every batch it still keeps from there on, and
 * an end marker. A DEALER with its own empty delimiter: a REQ socket gets the first reply only.
 *
 * The engine never refuses: a start older than its buffer yields what is left, and nobody at all yields silence. So the
 * caller compares the first sequence with the one it asked for, and silence ends in a timeout.
 */
import { Dealer } from 'zeromq';
import { errorMessage } from '#shared/errors.ts';
import { decodeTopic } from './decode-batch.ts';
import { isIpv6Endpoint } from './endpoints.ts';
import type { IntakeTurn } from './intake-turn.ts';

/** One replayed batch, as the live message with these frames would have been. */
export interface ReplayedMessage {
  /** Absent before 2026-07. */
  readonly topic: string | undefined;
  /** Topic (empty when absent), sequence, payload. */
  readonly frames: readonly [Uint8Array, Uint8Array, Uint8Array];
}

export type ReplayLayout = 'topic' | 'bare';

export type ReplayReply =
  | { readonly kind: 'message'; readonly message: ReplayedMessage }
  | { readonly kind: 'end'; readonly layout: ReplayLayout }
  | { readonly kind: 'bad'; readonly detail: string };

export interface ReplayRequest {
  /** ROUTER endpoint of one rank. */
  readonly endpoint: string;
  /** First sequence wanted. */
  readonly from: number;
  /** Longest wait for the next reply, ms. Engines answer between batches, within about 0.1 s. Default 3000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Limits how long replies are taken in one turn of the event loop. Default: as fast as they come. */
  readonly turn?: IntakeTurn;
  /** Gets each batch in order. Answer false to stop early. */
  readonly onMessage: (message: ReplayedMessage) => boolean | undefined;
}

export interface ReplayOutcome {
  /**
   * `complete`: the end marker came. `silent`: nobody answered in time. `partial`: answers stopped before the end marker.
   * `stopped`: the caller had enough. `aborted`: by the signal. `failed`: the socket could not be used.
   */
  readonly status: 'complete' | 'silent' | 'partial' | 'stopped' | 'aborted' | 'failed';
  readonly messages: number;
  /** Replies that were neither a batch nor the end. */
  readonly badReplies: number;
  /** `topic`: replies with a topic frame, since 2026-07-07; `bare`: without. Absent when no batch and no end marker came. */
  readonly layout?: ReplayLayout;
  /** What to do about it, in words; absent when complete. */
  readonly reason?: string;
}

/** At most so many replies wait in libzmq; the engine's ROUTER holds the rest back. */
const RECEIVE_HIGH_WATER_MARK = 1000;
/** As for live messages: refused in libzmq, before the bytes are here. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
const EMPTY = new Uint8Array(0);

/** Runs one replay. Never rejects for what the network does: see `status`. */
export async function requestReplay(request: ReplayRequest): Promise<ReplayOutcome> {
  const { endpoint, from, signal } = request;
  const timeoutMs = request.timeoutMs ?? 3000;
  const isAborted = (): boolean => signal?.aborted === true;
  if (isAborted()) return { status: 'aborted', messages: 0, badReplies: 0 };
  let socket: Dealer;
  try {
    socket = new Dealer({
      linger: 0,
      receiveTimeout: timeoutMs,
      receiveHighWaterMark: RECEIVE_HIGH_WATER_MARK,
      maxMessageSize: MAX_MESSAGE_BYTES,
      ipv6: isIpv6Endpoint(endpoint),
    });
    socket.connect(endpoint);
  } catch (error) {
    return { status: 'failed', messages: 0, badReplies: 0, reason: `cannot ask ${endpoint}: ${errorMessage(error)}` };
  }
  const close = (): void => socket.close();
  signal?.addEventListener('abort', close, { once: true });
  let messages = 0;
  let badReplies = 0;
  let layout: ReplayLayout | undefined;
  const counts = (): Pick<ReplayOutcome, 'messages' | 'badReplies' | 'layout'> => ({ messages, badReplies, ...(layout !== undefined && { layout }) });
  try {
    await socket.send([EMPTY, sequenceFrame(from)]);
    for (;;) {
      const reply = parseReply(await socket.receive());
      if (isAborted()) return { status: 'aborted', ...counts() };
      if (reply.kind === 'bad') {
        badReplies += 1;
        continue;
      }
      layout = reply.kind === 'end' ? reply.layout : reply.message.topic === undefined ? 'bare' : 'topic';
      if (reply.kind === 'end') return { status: 'complete', ...counts() };
      messages += 1;
      if (request.onMessage(reply.message) === false) return { status: 'stopped', ...counts() };
      if (request.turn?.isSpent() === true) await request.turn.next();
    }
  } catch (error) {
    if (isAborted()) return { status: 'aborted', ...counts() };
    if (!isTimeout(error)) return { status: 'failed', ...counts(), reason: `asking ${endpoint} failed: ${errorMessage(error)}` };
    return messages + badReplies === 0
      ? { status: 'silent', ...counts(), reason: `nobody answered at ${endpoint} within ${timeoutMs} ms; is replay_endpoint set in the engine's --kv-events-config?` }
      : { status: 'partial', ...counts(), reason: `${endpoint} stopped answering before the end of the replay${badRepliesText(badReplies)}` };
  } finally {
    signal?.removeEventListener('abort', close);
    if (!socket.closed) socket.close();
  }
}

/**
 * Reads one reply from the right, which covers every layout: payload last, sequence before it, topic before that when
 * there is one, and the delimiter that a REQ socket would have taken off. An empty payload is the end marker.
 */
export function parseReply(frames: readonly Uint8Array[]): ReplayReply {
  const payload = frames.at(-1);
  const sequence = frames.at(-2);
  if (payload === undefined || sequence === undefined || frames.length > 4) return { kind: 'bad', detail: `${frames.length} frames` };
  if (payload.length === 0) return { kind: 'end', layout: frames.length === 4 ? 'topic' : 'bare' };
  if (sequence.length !== 8) return { kind: 'bad', detail: `sequence frame of ${sequence.length} bytes` };
  // Delimiter, topic, sequence, payload; without the delimiter (REQ) a third frame may be either, and both read right.
  const topic = frames.length === 4 || (frames.length === 3 && frames[0]?.length !== 0) ? frames.at(-3) : undefined;
  return {
    kind: 'message',
    message: { topic: topic === undefined ? undefined : decodeTopic(topic), frames: [topic ?? EMPTY, sequence, payload] },
  };
}

function sequenceFrame(seq: number): Uint8Array {
  const frame = new Uint8Array(8);
  new DataView(frame.buffer).setBigUint64(0, BigInt(seq));
  return frame;
}

/** What to add to the reason of an answer that had replies of no use; empty without any. */
export function badRepliesText(badReplies: number): string {
  return badReplies === 0 ? '' : `, and sent ${badReplies} ${badReplies === 1 ? 'reply that is no batch' : 'replies that are no batches'}`;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}
