import type { ReactElement } from 'react';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { WayOut } from '../../table/empty-rows.tsx';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCount } from '../../ui/format.ts';
import { useUrlState } from '../../url/use-url-state.ts';

/** vLLM's flag that makes an engine publish (vllm/config/kv_events.py). */
const FLAG = `--kv-events-config '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557"}'`;

/** Nothing recorded yet: no stream, none connected, or connected and idle. */
export function NoEvents(): ReactElement {
  const [, setUrl] = useUrlState();
  const { streams, connected } = useEngineSelector((engine) => ({
    streams: engine?.streams.length ?? 0,
    connected: engine?.streams.filter((stream) => stream.state === 'live' || stream.state === 'silent').length ?? 0,
  }));
  if (streams === 0) {
    return (
      <EmptyState title="No KV-event stream" text="No instance has an endpoint for KV-cache events. Start vLLM with the flag below, and give its endpoint with the instance.">
        <CodeBlock code={FLAG} label="vLLM flag" />
        <WayOut label="Open instances" onClick={() => setUrl({ view: 'instances' })} />
      </EmptyState>
    );
  }
  if (connected === 0) {
    return <EmptyState title="No stream is connected" text={`${formatCount(streams, 'stream')} configured; the lines above say what each one waits for.`} />;
  }
  return (
    <EmptyState
      title="Connected, no events yet"
      text={`${formatCount(connected, 'stream')} of ${streams} connected. An engine publishes when it stores or evicts blocks: send it a request longer than one block. Prefix caching must be on.`}
    />
  );
}
