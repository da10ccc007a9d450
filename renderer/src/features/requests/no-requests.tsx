import type { ReactElement } from 'react';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { WayOut } from '../../table/empty-rows.tsx';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { useUrlState } from '../../url/use-url-state.ts';

/** Nothing recorded yet: nobody to serve it, or nobody has asked. */
export function NoRequests(): ReactElement {
  const [, setUrl] = useUrlState();
  const { proxyUrl, instances, model } = useEngineSelector((engine) => ({
    proxyUrl: engine?.proxyUrl,
    instances: engine?.instances.length,
    model: engine?.instances.flatMap((instance) => instance.models)[0] ?? 'MODEL',
  }));
  if (instances === 0) {
    return (
      <EmptyState title="No instances" text="There is nobody to send requests to: pdscope needs a prefill and a decode instance.">
        <WayOut label="Add an instance" onClick={() => setUrl({ view: 'instances', selection: 'new' })} />
      </EmptyState>
    );
  }
  if (proxyUrl === undefined) {
    return <EmptyState title="No requests" text="The proxy is not listening, so none can arrive. The log of pdscope says why." />;
  }
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], stream: true });
  return (
    <EmptyState title="No requests yet" text="Point a client at this base URL, or send one from a shell:">
      <CodeBlock code={proxyUrl} label="base URL" />
      <CodeBlock code={`curl -N ${proxyUrl}/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${body}'`} label="cURL command" />
    </EmptyState>
  );
}
