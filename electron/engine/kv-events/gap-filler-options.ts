/** What a gap filler (gap-filler.ts) is made with. */
import type { BatchApplier } from './batch-applier.ts';
import type { PumpLane } from './decode-pump.ts';
import type { IntakeTurn } from './intake-turn.ts';
import type { ReplayOutcome, ReplayRequest } from './replay-client.ts';

export interface GapFillerOptions {
  /** ROUTER endpoint of this rank. */
  readonly endpoint: string;
  /** First batch wanted at first contact. Default 0, and batches that the engine keeps no more then count as never seen; given, they are missed. */
  readonly from?: number;
  /** Longest wait for the next answer, ms. Default 3000. */
  readonly timeoutMs?: number;
  /** Shared by all fillers of a process: replays together take about as long a turn as live decoding. */
  readonly turn: IntakeTurn;
  readonly applier: BatchApplier;
  readonly lane: PumpLane;
  /**
   * Number of the live message before which the connection broke, if it did since the last batch that was applied: only
   * then can the engine have started anew.
   */
  readonly brokeAfter: () => number | undefined;
  /** An answer told that the newest batch applied is of the engine's current life. */
  readonly onCurrent: () => void;
  /** Gets the end of each question. */
  readonly onEnd?: (outcome: ReplayOutcome) => void;
  readonly limits?: Partial<FillLimits>;
  /** Asks. Default `requestReplay`, over a real socket. */
  readonly request?: (request: ReplayRequest) => Promise<ReplayOutcome>;
}

export interface FillLimits {
  /** All of one fill. Default 30,000: an engine's default buffer of 10,000 batches takes a second or two. */
  readonly maxFillMs: number;
  /** Between the end of a fill and the next question. Default 200: gaps that follow each other are covered by one replay. */
  readonly pauseMs: number;
  /** After a question without a whole answer, doubling with each up to five minutes. Default 5000. */
  readonly backOffMs: number;
}

export const DEFAULT_LIMITS: FillLimits = { maxFillMs: 30_000, pauseMs: 200, backOffMs: 5000 };
