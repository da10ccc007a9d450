/** Why a section of the Cache view has nothing to show; each reason has its own way out. */
import type { ReactElement } from 'react';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { WayOut } from '../../table/empty-rows.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { formatCount } from '../../ui/format.ts';
import { useUrlState } from '../../url/use-url-state.ts';

export interface NoCacheProps {
  /** Blocks that are resident and whose tokens are not known. Default: all that the streams count as resident. */
  readonly unplaced?: number;
}

/** No stream, none connected, nothing stored yet, or nothing whose tokens are known. */
export function NoCache({ unplaced: counted }: NoCacheProps): ReactElement {
  const [, setUrl] = useUrlState();
  const { streams, connected, late, resident } = useEngineSelector((engine) => ({
    streams: engine?.streams.length ?? 0,
    connected: engine?.streams.filter(({ state }) => state === 'live' || state === 'silent').length ?? 0,
    resident: engine?.streams.reduce((sum, stream) => sum + stream.resident.reduce((all, { blocks }) => all + blocks, 0), 0) ?? 0,
    late: engine?.streams.filter(({ sawStart, state }) => state === 'live' && !sawStart).length ?? 0,
  }));
  const unplaced = counted ?? resident;
  if (streams === 0) {
    return (
      <EmptyState title="No KV-event stream" text="Blocks are known from KV-cache events, and no instance publishes them to pdscope. Start vLLM with --kv-events-config and give the endpoint with the instance.">
        <WayOut label="Open instances" onClick={() => setUrl({ view: 'instances' })} />
      </EmptyState>
    );
  }
  if (connected === 0) {
    return (
      <EmptyState title="No stream is connected" text={`${formatCount(streams, 'stream')} configured, none of them connected.`}>
        <WayOut label="Open KV events" onClick={() => setUrl({ view: 'kv-events' })} />
      </EmptyState>
    );
  }
  if (unplaced > 0) {
    return (
      <EmptyState
        title="No tokens are known"
        text={`${formatCount(unplaced, 'block')} resident, but none can be placed: their stores, or those of their parents, were not seen${late > 0 ? ` (${formatCount(late, 'stream')} joined late)` : ''}. Blocks stored from now on under a known parent appear here; a cache reset of the engine makes the picture whole.`}
      />
    );
  }
  return (
    <EmptyState
      title="Nothing is indexed yet"
      text={`${formatCount(connected, 'stream')} of ${streams} connected, no block stored since. Send a request longer than one block; prefix caching must be on.`}
    />
  );
}
