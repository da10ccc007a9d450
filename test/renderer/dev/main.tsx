/** The page on invented data, for work on the look: `npx vite --config test/renderer/dev/vite.config.ts`. `?n=100` makes a large fleet, `?case=empty|idle|down` the empty states. */
import '../../../renderer/src/theme/mantine.css';
import '../../../renderer/src/theme/tokens.css';
import '../../../renderer/src/theme/kit.css';
import { createRoot } from 'react-dom/client';
import { App } from '../../../renderer/src/app.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { sampleSeries } from '../fixtures/sample-series.ts';
import { sampleInstance, sampleState } from '../fixtures/sample-state.ts';

const params = new URLSearchParams(location.search);
const count = Number(params.get('n') ?? 0);
const transport = new FakeTransport();
let state = sampleState();
if (count > 0) {
  state = sampleState({
    instances: Array.from({ length: count }, (_, index) =>
      sampleInstance({ name: `${index % 3 === 0 ? 'P' : 'D'}${index}`, role: index % 3 === 0 ? 'prefill' : 'decode', inFlight: index, ...(index === 7 && { state: 'down' as const }) }),
    ),
  });
}
if (params.get('case') === 'empty') state = sampleState({ instances: [], streams: [], edges: [], latency: {} });
if (params.get('case') === 'idle') state = { ...state, edges: [], latency: {}, totals: { ...state.totals, received: 0, running: 0, requestsPerSecond: 0 } };

transport.answer('series.query', (input) => sampleSeries(state, input, Date.now()));
transport.answer('instance.probe', (input) => ({ url: `http://${input.url}`, isReachable: true, isHealthy: true, models: ['Llama-3-8B'], version: '0.11.0', roundTripMs: 2.3, problem: `It serves Llama-3-8B; the fleet serves Qwen3-8B. Use force to add it all the same.`, canForce: true }));
if (params.get('case') === 'down') transport.connection.set({ phase: 'waiting', attempt: 3, retryAtUnixMs: Date.now() + 60_000, reason: 'connection closed (1006)' });
else {
  setInterval(() => {
    state = { ...state, nowUnixMs: Date.now() };
    transport.snapshot('state', { state: { ...state, nowUnixMs: sampleState().nowUnixMs } });
  }, 250);
}

const root = document.querySelector('#root');
if (root !== null) createRoot(root).render(<App transport={transport} />);
