/**
 * One window's session over a MessagePort. Counts frames that the window has not acknowledged, so that the session
 * sees a slow window the way it sees a slow socket: bytes that wait. Nothing is queued here.
 */
import type { MessagePortMain } from 'electron';
import { z } from 'zod';
import type { Session, SessionSink } from '#engine/session/session.ts';
import type { ClientFrame, HostFrame } from '#shared/desktop-port.ts';
import type { HostMessage } from '#shared/wire.ts';

/** The preload is ours, but the page behind it is treated as a stranger: the engine validates `message` itself. */
const ClientFrameSchema = z.union([z.object({ ack: z.number().int().nonnegative() }), z.object({ message: z.unknown() })]);

/**
 * Estimated sizes of a frame, bytes. A structured clone has no length to ask for; what matters is that a window which
 * stops reading reaches the session's limit within seconds, and one that reads never does.
 */
const FRAME_BYTES = 512;
const ROW_BYTES = 1024;
const STATE_BYTES = 16_384;

/** Connects a port and a session until either ends. Answers what ends both. */
export function attachSessionPort(port: MessagePortMain, openSession: (sink: SessionSink) => Session): () => void {
  let sent = 0;
  let waitingBytes = 0;
  let isClosed = false;
  /** Sizes of the frames not acknowledged, oldest first; the first one has number `sent - waiting.length + 1`. */
  const waiting: number[] = [];

  const session = openSession({
    send(message) {
      if (isClosed) return;
      sent += 1;
      const bytes = estimateBytes(message);
      waiting.push(bytes);
      waitingBytes += bytes;
      port.postMessage({ n: sent, message } satisfies HostFrame);
    },
    bufferedBytes: () => waitingBytes,
  });

  const acknowledge = (n: number): void => {
    while (waiting.length > 0 && sent - waiting.length + 1 <= n) waitingBytes -= waiting.shift() ?? 0;
  };
  const close = (): void => {
    if (isClosed) return;
    isClosed = true;
    session.close();
    port.close();
  };

  port.on('message', (event) => {
    const frame = ClientFrameSchema.safeParse(event.data);
    // A frame of another shape is not from our preload: it costs itself, and the session goes on.
    if (!frame.success || isClosed) return;
    const data = frame.data as ClientFrame;
    if ('ack' in data) acknowledge(data.ack);
    else session.receive(data.message);
  });
  port.on('close', close);
  port.start();
  return close;
}

/** Bytes that a message weighs, roughly and cheaply. */
export function estimateBytes(message: HostMessage): number {
  if (message.t !== 'snapshot' && message.t !== 'delta') return FRAME_BYTES;
  return message.channel === 'state' ? STATE_BYTES : FRAME_BYTES + message.rows.length * ROW_BYTES;
}
