import type { EvictionStorm } from '#shared/cache.ts';

export interface StormBar {
  readonly lane: number;
  readonly x: number;
  readonly width: number;
  readonly storm: EvictionStorm;
}

export interface StormLane {
  readonly stream: string;
  readonly instance: EvictionStorm['instance'];
  readonly name: string;
}

/** A short storm still has to be seen and hit, px. */
const LEAST_PX = 3;

/** `P0/1`: as people call the stream of a storm. */
export function stormStream({ instanceName, stream }: Pick<EvictionStorm, 'instanceName' | 'stream'>): string {
  return `${instanceName}/${stream.slice(stream.lastIndexOf('/') + 1)}`;
}

/** Bars on a time axis, a lane per stream in the order of the instances given; what lies outside the window is cut off. */
export function stormBars(
  storms: readonly EvictionStorm[],
  { fromUnixMs, toUnixMs, widthPx, instances }: { readonly fromUnixMs: number; readonly toUnixMs: number; readonly widthPx: number; readonly instances: readonly EvictionStorm['instance'][] },
): { readonly lanes: readonly StormLane[]; readonly bars: readonly StormBar[] } {
  const placeOf = ({ instance }: StormLane): number => (instances.includes(instance) ? instances.indexOf(instance) : instances.length);
  const lanes = [...new Map(storms.map((storm): [string, StormLane] => [storm.stream, { stream: storm.stream, instance: storm.instance, name: stormStream(storm) }])).values()]
    .sort((a, b) => placeOf(a) - placeOf(b) || a.name.localeCompare(b.name, 'en', { numeric: true }));
  const at = (unixMs: number): number => (Math.min(toUnixMs, Math.max(fromUnixMs, unixMs)) - fromUnixMs) * (widthPx / Math.max(1, toUnixMs - fromUnixMs));
  const bars = storms.map((storm) => {
    const lane = lanes.findIndex(({ stream }) => stream === storm.stream);
    const x = Math.min(at(storm.fromUnixMs), Math.max(0, widthPx - LEAST_PX));
    return { lane, x, width: Math.max(LEAST_PX, at(storm.toUnixMs) - x), storm };
  });
  return { lanes, bars };
}
