/** A simulated cluster and its clients in a process of their own, so that what is measured is pdscope alone. */
import { startSimCluster } from '#engine/simulator/sim-cluster.ts';
import { startTraffic } from '#engine/simulator/traffic.ts';
import type { ClusterOrder, ClusterShape } from './cluster-handle.ts';

const { prefill, decode } = JSON.parse(process.argv[2] ?? '{}') as ClusterShape;
const cluster = await startSimCluster({ prefill, decode, seed: 1, keepReceived: 0, kvEvents: { bufferSteps: 1000 } });

process.once('disconnect', () => process.exit(0));
process.once('message', ({ baseUrl, requestsPerSecond }: ClusterOrder) => {
  const model = cluster.instances[0]?.model;
  startTraffic({ baseUrl, requestsPerSecond, seed: 1, hasConversationIds: false, hasMedia: false, ...(model !== undefined && { model }) });
});

process.send?.({ specs: cluster.instances.map(({ role, url, kvEvents }) => ({ role, url, ...(kvEvents !== undefined && { kvEvents }) })) });
