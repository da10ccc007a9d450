/** A simulated cluster and its clients in a process of their own, so that what is measured is pdscope alone. */
import { startSimCluster } from '#engine/simulator/sim-cluster.ts';
import { startTraffic, type Traffic } from '#engine/simulator/traffic.ts';
import type { ClusterOrder, ClusterShape } from './cluster-handle.ts';

const { prefill, decode } = JSON.parse(process.argv[2] ?? '{}') as ClusterShape;
const cluster = await startSimCluster({ prefill, decode, seed: 1, keepReceived: 0, kvEvents: { bufferSteps: 1000 } });
let traffic: Traffic | undefined;

process.on('message', (order: ClusterOrder) => {
  if (order === 'exit') {
    void (async () => {
      await traffic?.close();
      await cluster.close();
      process.exit(0);
    })();
    return;
  }
  const { baseUrl, requestsPerSecond } = order;
  const model = cluster.instances[0]?.model;
  traffic = startTraffic({ baseUrl, requestsPerSecond, seed: 1, hasConversationIds: false, hasMedia: false, ...(model !== undefined && { model }) });
});

process.send?.({ specs: cluster.instances.map(({ role, url, kvEvents }) => ({ role, url, ...(kvEvents !== undefined && { kvEvents }) })) });
