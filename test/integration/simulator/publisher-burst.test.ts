import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Subscriber } from 'zeromq';
import { openKvPublisher } from '#engine/simulator/kv-publisher.ts';

const BATCHES = 5000;

test('a burst of batches in one turn is published whole and in order, never refused as busy', async () => {
  const publisher = await openKvPublisher({
    endpoint: 'tcp://127.0.0.1:*',
    topic: '',
    format: { encoding: 'map', hashForm: 'int' },
    rank: 0,
  });
  const subscriber = new Subscriber({ receiveTimeout: 10_000, receiveHighWaterMark: 0, linger: 0 });
  try {
    subscriber.connect(publisher.endpoint);
    subscriber.subscribe();
    // A PUB drops what is sent before the subscription is there: publish until the first batch arrives.
    const first = subscriber.receive();
    let warmUp = 0;
    do {
      publisher.publish([{ kind: 'cleared' }]);
      warmUp += 1;
    } while ((await Promise.race([first, delay(5, 'not yet')])) === 'not yet');
    for (let i = 0; i < BATCHES; i += 1) publisher.publish([{ kind: 'cleared' }]);

    const seqs: number[] = [];
    while (seqs.at(-1) !== warmUp + BATCHES - 1) {
      const [, seq] = await subscriber.receive();
      seqs.push(Number(seq?.readBigUInt64BE()));
    }
    expect(seqs.slice(-BATCHES)).toEqual(Array.from({ length: BATCHES }, (_, i) => warmUp + i));
    expect(publisher.counters.batches).toBe(warmUp + BATCHES);
  } finally {
    subscriber.close();
    publisher.close();
  }
});
