/**
 * What routing by prefix costs beside round-robin: engines over two prefill and two decode mocks with KV events, so that
 * there is something to look up, one for every way in which a prompt's tokens are had.
 */
import type { ProtocolOptions } from '#shared/protocol.ts';
import type { PolicyName } from '#shared/vocabulary.ts';
import { startPublisher } from './kv-publisher.ts';
import { startMockCluster } from './mock-cluster.ts';
import { startProxyProcess, type ProxyHandle } from './proxy-handle.ts';
import { postBytes, RawClient } from './raw-http.ts';
import { cpuOfEngine, type Target } from './target.ts';

interface Way {
  readonly name: string;
  readonly policy: PolicyName;
  readonly protocol?: Partial<ProtocolOptions>;
  /** Whether instances are told to publish what they hold. */
  readonly hasEvents: boolean;
  /** Of the nth request. */
  readonly prompt: (nth: number) => unknown;
}

const WORDS = 'word '.repeat(200);
const text = (nth: number): string => `${nth} ${WORDS}`;

/** The first is what the others are held against. Prompts differ, except where the name says so. */
const WAYS: readonly Way[] = [
  { name: 'round-robin', policy: 'round-robin', hasEvents: true, prompt: text },
  { name: 'prefix-aware, token ids', policy: 'prefix-aware', hasEvents: true, prompt: (nth) => Array.from({ length: 256 }, (_, at) => (nth * 31 + at) % 50_000) },
  { name: 'prefix-aware, /tokenize', policy: 'prefix-aware', hasEvents: true, prompt: text },
  { name: 'prefix-aware, the same prompts', policy: 'prefix-aware', hasEvents: true, prompt: (nth) => text(nth % 100) },
  { name: 'prefix-aware, nothing held', policy: 'prefix-aware', hasEvents: false, prompt: text },
  { name: 'prefix-aware, not asked', policy: 'prefix-aware', hasEvents: true, protocol: { tokenizeForRouting: false }, prompt: text },
];

const SHAPE = { blocksPerEvent: 4, eventsPerBatch: 4 };
const SETTLE_MS = 1500;

export interface RoutingTargets extends AsyncDisposable {
  readonly targets: readonly Target[];
}

export async function startRouting(): Promise<RoutingTargets> {
  const closers: (() => Promise<void>)[] = [];
  const targets: Target[] = [];
  for (const way of WAYS) {
    const mocks = await Promise.all([0, 1].map(async () => await startMockCluster({ tokens: 1, tokensPerSecond: 50 }, { prefill: 0, decode: 0 })));
    closers.push(...mocks.map((mock) => () => mock.close()));
    const urls = [...mocks.map(({ prefill }) => ({ role: 'prefill' as const, url: prefill })), ...mocks.map(({ decode }) => ({ role: 'decode' as const, url: decode }))];
    const publisher = await startPublisher({ streams: urls.length, shape: SHAPE });
    closers.push(async () => await publisher[Symbol.asyncDispose]());
    const engine = await startProxyProcess({
      policy: way.policy,
      instances: urls.map((url, at) => ({ ...url, kvEvents: { endpoint: publisher.endpoints[at] ?? '', topic: '', ranks: 1, mode: 'connect' } })),
      ...(way.protocol !== undefined && { protocol: way.protocol }),
    });
    closers.push(() => engine.stop());
    await settle(SETTLE_MS);
    if (way.hasEvents) {
      publisher.begin(2000);
      await settle(SETTLE_MS);
      await publisher.halt();
    }
    targets.push(targetOf(way, engine));
  }
  return {
    targets,
    async [Symbol.asyncDispose]() {
      for (const close of closers.reverse()) await close();
    },
  };
}

function targetOf({ name, prompt }: Way, engine: ProxyHandle): Target {
  let sent = 0;
  return {
    name,
    connect: async () => {
      const client = await RawClient.connect(engine.url);
      return {
        complete: async () => {
          sent += 1;
          const request = postBytes('/v1/completions', { model: 'bench/model', prompt: prompt(sent), max_tokens: 16 });
          const startedMs = performance.now();
          const { status } = await client.send(request);
          if (status !== 200) throw new Error(`${name} answered ${status}`);
          return { totalMs: performance.now() - startedMs };
        },
        stream: () => Promise.reject(new Error('routing is measured with whole answers')),
        close: () => client.close(),
      };
    },
    cpuSinceLast: cpuOfEngine(engine),
  };
}

/** For subscriptions to be made, and events to be indexed; nothing is timed meanwhile. */
async function settle(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
