/** What a demo changes in the engine's settings where nobody asked for something else. Loaded without the simulator. */
import type { EngineOptions, EngineSettings } from './engine-options.ts';
import { freePort } from './simulator/free-port.ts';

/** The demo's decode instances keep a turn's blocks for a minute: vLLM's eight would fill their small caches. */
export const DEMO_BLOCKS_TTL_MS = 60_000;
/** What the proxy trusts them for: less than that. */
const CONVERSATION_TTL_MS = 50_000;

/** Engines run on this machine: MoRIIO's port need not be open to others, and it must be known before it is bound. */
export async function withDemoDefaults(settings: EngineSettings, { protocol }: EngineOptions): Promise<EngineSettings> {
  if (settings.demo === undefined) return settings;
  const { moriioPort } = settings.protocol;
  const moriioHost = protocol?.moriioHost ?? '127.0.0.1';
  return {
    ...settings,
    protocol: {
      ...settings.protocol,
      conversationTtlMs: protocol?.conversationTtlMs ?? CONVERSATION_TTL_MS,
      moriioHost,
      moriioPort: moriioPort === 0 ? await freePort(moriioHost) : moriioPort,
    },
  };
}

/** Whether somebody asked for numbers of instances; otherwise the protocol may choose others. */
export function hasDemoShape({ demo }: EngineOptions): boolean {
  return [demo?.encode, demo?.prefill, demo?.decode, demo?.both].some((count) => count !== undefined);
}
