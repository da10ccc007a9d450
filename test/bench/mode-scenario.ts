/** What each P/D protocol costs beside NIXL: one engine per mode, over mocks that answer as that protocol's engines do. */
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { encode } from '@msgpack/msgpack';
import { Dealer } from 'zeromq';
import type { InstanceSpec } from '#shared/instance.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { PULL_PARAMS, startMockCluster, type MockCluster, type StreamShape } from './mock-cluster.ts';
import { startProxyProcess } from './proxy-handle.ts';
import { cpuOfEngine, proxyTarget, type Target } from './target.ts';

interface Mode {
  readonly name: string;
  readonly connector: ConnectorName;
  /** What prefill answers as kv_transfer_params. */
  readonly params: object | null;
  readonly moriio?: 'READ' | 'WRITE';
  /** Added to every request's body. */
  readonly fields?: object;
}

const { remote_block_ids: _blocks, ...PUSH_PARAMS } = { ...PULL_PARAMS, transfer_mode: 'push', pp_size: 1 };
const READ_PARAMS = {
  do_remote_prefill: true, do_remote_decode: false, remote_block_ids: PULL_PARAMS.remote_block_ids[0], remote_engine_id: '127.0.0.1:6301', remote_host: '127.0.0.1',
  remote_handshake_port: 6301, remote_notify_port: 61005, remote_dp_rank: 0, remote_dp_size: 1, tp_size: 1, transfer_id: 'tx-bench',
};

/** The first is what the others are held against. Modes with legs of their own kind (encode, render) are not comparable. */
const MODES: readonly Mode[] = [
  { name: 'nixl', connector: 'nixl', params: PULL_PARAMS },
  { name: 'plain', connector: 'plain', params: null },
  { name: 'nixl-bidirectional', connector: 'nixl-bidirectional', params: PULL_PARAMS },
  { name: 'nixl-push', connector: 'nixl-push', params: PUSH_PARAMS },
  { name: 'mooncake', connector: 'mooncake', params: null },
  { name: 'moriio READ', connector: 'moriio', params: READ_PARAMS, moriio: 'READ' },
  { name: 'moriio WRITE', connector: 'moriio', params: null, moriio: 'WRITE' },
  { name: 'aggregated (one leg)', connector: 'aggregated', params: null },
];

export interface ModeTargets extends AsyncDisposable {
  /** In the order of the table; the first is NIXL. */
  readonly targets: readonly Target[];
}

/** Starts an engine and mocks for every mode. */
export async function startModes(shape: StreamShape): Promise<ModeTargets> {
  const closers: (() => Promise<void> | void)[] = [];
  const targets: Target[] = [];
  for (const mode of MODES) {
    const mocks = await startMockCluster(shape, { prefill: 0, decode: 0 }, mode.params);
    closers.push(() => mocks.close());
    const moriioPort = mode.moriio === undefined ? undefined : await freePort();
    const engine = await startProxyProcess({
      connector: mode.connector,
      instances: instancesOf(mode, mocks),
      ...(moriioPort !== undefined && { protocol: { moriioHost: '127.0.0.1', moriioPort } }),
    });
    closers.push(() => engine.stop());
    if (mode.moriio !== undefined && moriioPort !== undefined) closers.push(register(mode.moriio, mocks, moriioPort));
    await untilServing(engine.url);
    targets.push(proxyTarget(mode.name, engine.url, cpuOfEngine(engine), mode.fields));
  }
  return {
    targets,
    async [Symbol.asyncDispose]() {
      for (const close of closers.reverse()) await close();
    },
  };
}

function instancesOf(mode: Mode, mocks: MockCluster): InstanceSpec[] {
  if (mode.connector === 'moriio') return [];
  if (mode.connector === 'aggregated') return [{ role: 'both', url: mocks.decode }];
  const bootstrapPort = Number(new URL(mocks.prefill).port);
  return [
    { role: 'prefill', url: mocks.prefill, ...(mode.connector === 'mooncake' && { bootstrapPort }) },
    { role: 'decode', url: mocks.decode },
  ];
}

/** Registers both mocks as MoRIIO engines do, every second. Answers how to stop. */
function register(mode: 'READ' | 'WRITE', mocks: MockCluster, port: number): () => void {
  const dealers = ([['P', mocks.prefill, 6301], ['D', mocks.decode, 6401]] as const).map(([type, url, handshake]) => {
    const socket = new Dealer({ linger: 0 });
    socket.connect(`tcp://127.0.0.1:${port}`);
    const message = encode({
      type, http_address: new URL(url).host, zmq_address: `host:127.0.0.1,handshake:${handshake},notify:${handshake + 54_704}`, dp_size: 1, tp_size: 1, transfer_mode: mode,
    });
    return { socket, message };
  });
  const send = (): void => {
    for (const { socket, message } of dealers) void socket.send(message).catch(() => undefined);
  };
  send();
  const timer = setInterval(send, 1000);
  return () => {
    clearInterval(timer);
    for (const { socket } of dealers) socket.close();
  };
}

async function untilServing(url: string): Promise<void> {
  const deadlineMs = performance.now() + 30_000;
  while (performance.now() < deadlineMs) {
    const answer = await fetch(`${url}/health`);
    const text = await answer.text();
    if (answer.status === 200) return;
    if (performance.now() + 1000 > deadlineMs) throw new Error(`${url} does not come up: ${text}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 100);
    });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  return port;
}
