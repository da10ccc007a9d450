import { fc } from '../../support/properties.ts';
import { expect, test } from 'vitest';
import { FrameRing } from '#engine/kv-events/frame-ring.ts';

const HEADER = 8;

interface Sent {
  readonly firstRow: number;
  readonly rows: number;
  readonly frames: readonly Uint8Array[];
}

test('keeps the newest messages whole and in order, whatever their sizes, and says which are gone', () => {
  const frame = fc.uint8Array({ maxLength: 60 });
  const message = fc.record({ rows: fc.integer({ min: 0, max: 3 }), frames: fc.array(frame, { maxLength: 4 }) });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 120 }), fc.integer({ min: 1, max: 20 }), (messages, maxMessages) => {
      const ring = new FrameRing({ maxBytes: 1500, maxMessages });
      const sent: Sent[] = [];
      let row = 0;
      for (const { rows, frames } of messages) {
        ring.add(row + 1, 1000 + sent.length, frames);
        sent.push({ firstRow: row + 1, rows, frames });
        row += rows;
        const bytes = sent.slice(sent.length - ring.kept).reduce((sum, { frames: kept }) => sum + kept.reduce((all, { length }) => all + length + HEADER, 0), 0);
        expect(ring.bytes).toBe(bytes);
        expect(ring.bytes).toBeLessThanOrEqual(1500);
        expect(ring.kept).toBeLessThanOrEqual(maxMessages);
        expect(ring.kept + ring.evicted).toBe(sent.length);
        expect(ring.kept).toBeGreaterThan(0);
      }
      const firstKept = sent.length - ring.kept;
      for (const [index, { firstRow, rows, frames }] of sent.entries()) {
        for (let n = firstRow; n < firstRow + rows; n += 1) {
          const found = ring.find(n);
          const wanted = index < firstKept ? 'evicted' : { receivedAtUnixMs: 1000 + index, frames: frames.map((bytes) => ({ length: bytes.length, bytes: [...bytes] })) };
          expect(found === 'evicted' ? found : { receivedAtUnixMs: found.receivedAtUnixMs, frames: found.frames.map(({ length, bytes }) => ({ length, bytes: [...bytes] })) }).toEqual(wanted);
        }
      }
    }),
  );
});

test('a message larger than a quarter is kept in part, with its whole length', () => {
  const ring = new FrameRing({ maxBytes: 4096, maxMessages: 10 });
  const payload = Uint8Array.from({ length: 5000 }, (_, index) => index % 251);
  ring.add(1, 7, [Uint8Array.of(1, 2), payload]);
  const found = ring.find(1);
  if (found === 'evicted') throw new Error('not kept');
  expect(found.frames.map(({ length, bytes }) => [length, bytes.length])).toEqual([[2, 2], [5000, 1024 - 2 * HEADER - 2]]);
  expect([...(found.frames[1]?.bytes ?? [])]).toEqual([...payload.subarray(0, 1024 - 2 * HEADER - 2)]);
});

test('does not see what happens to a received buffer afterwards', () => {
  const ring = new FrameRing({ maxBytes: 4096 });
  const frame = Uint8Array.of(1, 2, 3);
  ring.add(1, 7, [frame]);
  frame.fill(9);
  expect(ring.find(1)).toMatchObject({ frames: [{ bytes: Buffer.from([1, 2, 3]) }] });
});
