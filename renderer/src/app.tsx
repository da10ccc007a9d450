import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { lazy, type ComponentType, type ReactElement } from 'react';
import type { ViewId } from '#shared/views.ts';
import { Shell } from './shell/shell.tsx';
import { EngineProvider } from './stores/engine-context.tsx';
import { cssVariables, theme } from './theme/theme.ts';
import { TransportProvider } from './transport/transport-context.tsx';
import type { Transport } from './transport/transport.ts';
import { OverviewView } from './features/overview/overview-view.tsx';
import { useUrlState } from './url/use-url-state.ts';

const RequestsView = lazy(async () => {
  const { RequestsView } = await import('./features/requests/requests-view.tsx');
  return { default: RequestsView };
});
const KvEventsView = lazy(async () => {
  const { KvEventsView } = await import('./features/kv-events/kv-events-view.tsx');
  return { default: KvEventsView };
});
const CacheView = lazy(async () => {
  const { CacheView } = await import('./features/cache/cache-view.tsx');
  return { default: CacheView };
});
const InstancesView = lazy(async () => {
  const { InstancesView } = await import('./features/instances/instances-view.tsx');
  return { default: InstancesView };
});
const FindingsView = lazy(async () => {
  const { FindingsView } = await import('./features/findings/findings-view.tsx');
  return { default: FindingsView };
});

/** The page's CSP allows only styles with this nonce; the host writes it into the page. '' where there is none. */
function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}

/** Everything, over a given transport. */
export function App({ transport }: { readonly transport: Transport }): ReactElement {
  return (
    <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto" getStyleNonce={styleNonce} deduplicateInlineStyles>
      <Notifications position="bottom-right" limit={4} transitionDuration={0} />
      <TransportProvider transport={transport}>
        <EngineProvider>
          <Shell>
            <CurrentView />
          </Shell>
        </EngineProvider>
      </TransportProvider>
    </MantineProvider>
  );
}

const VIEW_COMPONENTS: Readonly<Record<ViewId, ComponentType>> = {
  overview: OverviewView,
  requests: RequestsView,
  'kv-events': KvEventsView,
  cache: CacheView,
  instances: InstancesView,
  findings: FindingsView,
};

function CurrentView(): ReactElement {
  const [{ view }] = useUrlState();
  const View = VIEW_COMPONENTS[view];
  return <View />;
}
