import { useMemo } from 'react';
import type { Confidence } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import { useEngineState } from '../stores/engine-context.tsx';
import { streamName, trustOf, trustOfStreams, type Trust } from './trust.ts';

/** Names streams in the reasons of cache answers as the rest of the page does. */
export function useTrustOf(): (confidence: Confidence) => Trust {
  const streams = useEngineState()?.streams;
  return useMemo(() => {
    const names = new Map(streams?.map((stream) => [stream.id, streamName(stream)]));
    return (confidence) => trustOf(confidence, (stream: StreamId) => names.get(stream) ?? stream);
  }, [streams]);
}

/** Of the streams named, from their live state; default: of all. */
export function useStreamTrust(only?: readonly StreamId[]): Trust | undefined {
  const streams = useEngineState()?.streams ?? [];
  return trustOfStreams(only === undefined ? streams : streams.filter((stream) => only.includes(stream.id)));
}
