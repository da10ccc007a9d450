import type { EvictionStorm } from '#shared/cache.ts';

export interface StormBar {
  readonly lane: number;
  readonly x: number;
  readonly width: number;
  readonly storm: EvictionStorm;
}

/** A short storm still has to be seen and hit, px. */
const LEAST_PX = 3;

/** Bars on a time axis, a lane per stream in order of first appearance; what lies outside the window is cut off. */
export function stormBars(
  storms: readonly EvictionStorm[],
  { fromUnixMs, toUnixMs, widthPx }: { readonly fromUnixMs: number; readonly toUnixMs: number; readonly widthPx: number },
): { readonly lanes: readonly { readonly stream: string; readonly name: string }[]; readonly bars: readonly StormBar[] } {
  const lanes: { stream: string; name: string }[] = [];
  const at = (unixMs: number): number => (Math.min(toUnixMs, Math.max(fromUnixMs, unixMs)) - fromUnixMs) * (widthPx / Math.max(1, toUnixMs - fromUnixMs));
  const bars = storms.map((storm) => {
    let lane = lanes.findIndex(({ stream }) => stream === storm.stream);
    if (lane === -1) lane = lanes.push({ stream: storm.stream, name: `${storm.instanceName}/${storm.stream.slice(storm.stream.lastIndexOf('/') + 1)}` }) - 1;
    const x = Math.min(at(storm.fromUnixMs), Math.max(0, widthPx - LEAST_PX));
    return { lane, x, width: Math.max(LEAST_PX, at(storm.toUnixMs) - x), storm };
  });
  return { lanes, bars };
}
