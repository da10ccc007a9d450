/**
 * How far a stream's picture of its engine's cache can be trusted. Pure: facts in, a number and its reasons out.
 *
 * confidence = product of (1 - weight) over all doubts. Doubts are independent causes of error, so each takes its share
 * of what the others left. Weights, by what was observed since the cache was last known to be empty (the engine's start,
 * or an AllBlocksCleared while only the GPU tier is in use; vLLM sends it for that tier alone):
 *
 *   never-connected, socket-failed   1     nothing is known
 *   nothing-received       0.5   an idle engine and a dead publisher look alike; 0 when a replay said it has nothing
 *   connection-lost        0.5   nothing is known of what happens now
 *   stores-untold          requests computed blocks since the last batch, and none told of them: nothing is known of what happens
 *                          now, as with a broken connection. 0.3 for one request, whose usage may be wrong; else
 *                          untold / (untold + resident) blocks, at least 0.5 and at most 0.9
 *   joined-late            0.5 * unseen / (unseen + applied): blocks turn over, so old history matters less with time;
 *                          `unseen` counts at least one batch, as nobody joins late for nothing
 *   batches-lost           min(0.9, 3 * lost / (lost + applied)), at least 0.01: a lost store hides blocks, a lost removal
 *                          leaves ghosts that stay, and losses come in runs, so they count three times their share
 *   batches-waiting        the same of batches refused by the queue and not yet replaced
 *   messages-unreadable    as batches-lost: an unreadable batch is a lost one
 *   events-unreadable      min(0.9, 3 * bad / events), at least 0.01
 *   events-unknown         min(0.5, unknown / events), at least 0.01: they may store or remove blocks
 *   life-uncertain         0.3   batches are missing behind a new connection, and no replay told whether the engine restarted; or
 *                          batches came with old numbers that were no duplicates, and nothing tells of which life they are
 *   removals-unknown       min(0.5, unknown / removed blocks), only when nothing above explains them
 *   replaying              0.05  events wait while a replay runs
 *   lagging                min(0.3, (lag - 2 s) / 60 s) beyond 2 s; clocks may disagree, so never more
 *   shared-stream          0.9   sequences of several publishers interleave
 *   other-rank             0.2   right numbers under the wrong rank
 *   blocks-untracked       min(0.9, untracked / (untracked + resident))
 *   blocks-displaced       0.3   pdscope's own index was full and gave up blocks of this stream
 *
 * The weights are judgement, not measurement; the order of magnitude is what they are for.
 */
import type { KvConfidence, KvDoubt, KvDoubtCode, KvStreamState } from '#shared/kv.ts';
import type { UntoldFacts } from './untold-stores.ts';

/** Counts of batches and events are since the cache was last known to be empty. */
export interface StreamFacts {
  readonly state: KvStreamState;
  /** Batches applied, live or by replay. */
  readonly applied: number;
  /** Batches of the engine's life that went by before the stream was joined; 0 when its start was seen. */
  readonly unseen: number;
  /** The engine's replay said that nothing was published yet. */
  readonly isKnownEmpty: boolean;
  readonly lost: number;
  /** Refused by pdscope's own queue since the last message it took. */
  readonly waiting: number;
  readonly badMessages: number;
  readonly events: number;
  readonly badEvents: number;
  readonly unknownEvents: number;
  readonly removedBlocks: number;
  readonly unknownRemovals: number;
  /** Batches were missing behind a new connection, and no replay told whether the engine started anew meanwhile. */
  readonly isLifeUncertain: boolean;
  /** Batches that were left out as of another life of the engine, an older or a newer one, or of another publisher. */
  readonly strays: number;
  readonly isReplaying: boolean;
  readonly lagMs: number | undefined;
  readonly hasSeveralPublishers: boolean;
  /** Blocks that requests had computed since the last batch; absent without such evidence (untold-stores.ts). */
  readonly untold: UntoldFacts | undefined;
  readonly hasOtherRank: boolean;
  /** The instance itself says which ranks it has. */
  readonly isRankTold: boolean;
  readonly residentBlocks: number;
  /** Stores left out because the stream named too many residencies. */
  readonly untrackedBlocks: number;
  /** Blocks of the stream that pdscope's own index gave up for lack of room. */
  readonly displacedBlocks: number;
}

const TOLERATED_LAG_MS = 2000;
const WORST_LAG_MS = 60_000;

/** Confidence in the cache numbers of one stream. */
export function streamConfidence(facts: StreamFacts): KvConfidence {
  return combined(doubtsOf(facts));
}

function doubtsOf(facts: StreamFacts): KvDoubt[] {
  const doubts: KvDoubt[] = [];
  const doubt = (code: KvDoubtCode, weight: number, text: string): void => {
    if (weight > 0) doubts.push({ code, weight: Math.min(1, weight), text });
  };
  stateDoubts(facts, doubt);
  historyDoubts(facts, doubt);
  eventDoubts(facts, doubt);
  const { lagMs, untrackedBlocks, residentBlocks, displacedBlocks, untold } = facts;
  if (untold !== undefined) {
    const weight = untold.requests === 1 ? 0.3 : Math.min(0.9, Math.max(0.5, untold.blocks / (untold.blocks + residentBlocks)));
    doubt('stores-untold', weight, `No batch came since ${many(untold.requests, 'request', 'requests')} computed ${many(untold.blocks, 'whole block', 'whole blocks')}, which the engine stores and tells at once: its publisher is stuck, its batches do not arrive, or prefix caching is off. What it stores and removes is unknown.`);
  }
  if (facts.isReplaying) doubt('replaying', 0.05, 'Missing batches are being asked for; newer events wait.');
  if (lagMs !== undefined && lagMs > TOLERATED_LAG_MS) {
    doubt('lagging', Math.min(0.3, (lagMs - TOLERATED_LAG_MS) / WORST_LAG_MS), `The last batch came ${(lagMs / 1000).toFixed(1)} s after its timestamp: numbers are that old, or the two clocks disagree.`);
  }
  if (facts.hasSeveralPublishers) doubt('shared-stream', 0.9, 'Several publishers share this stream: their sequences cannot be told apart, and neither can their blocks.');
  if (facts.hasOtherRank) doubt('other-rank', 0.2, `Batches say another rank than the endpoint was taken for: blocks are shown under the wrong rank.${facts.isRankTold ? '' : " Or the instance is a later node, whose ranks count on: only the engine labels of its /metrics would tell, and those are not there."}`);
  if (untrackedBlocks > 0) doubt('blocks-untracked', Math.min(0.9, untrackedBlocks / (untrackedBlocks + residentBlocks)), `${many(untrackedBlocks, 'block', 'blocks')} in too many places to follow: they are missing from the numbers.`);
  if (displacedBlocks > 0) doubt('blocks-displaced', 0.3, `pdscope's own block index was full and gave up ${many(displacedBlocks, 'block', 'blocks')} of this stream: they are missing from the numbers (--keep-blocks sets its size).`);
  return doubts;
}

type Doubt = (code: KvDoubtCode, weight: number, text: string) => void;

function stateDoubts({ state, isKnownEmpty, applied }: StreamFacts, doubt: Doubt): void {
  switch (state) {
    case 'connecting': doubt('never-connected', 1, 'There has been no connection yet: nothing is known of this cache.'); break;
    case 'failed': doubt('socket-failed', 1, 'The socket failed: nothing is known of this cache.'); break;
    case 'lost': doubt('connection-lost', 0.5, 'The connection is broken: stores and removals since then are unknown.'); break;
    case 'silent': case 'live':
      if (applied === 0 && !isKnownEmpty) doubt('nothing-received', 0.5, 'Nothing was received yet: an idle engine and a dead publisher look alike.');
      break;
  }
}

function historyDoubts({ applied, unseen, lost, waiting, badMessages, isLifeUncertain, strays }: StreamFacts, doubt: Doubt): void {
  if (unseen > 0) doubt('joined-late', (0.5 * unseen) / (unseen + applied), `The stream was joined late: blocks stored in the ${many(unseen, 'batch', 'batches')} before are unknown, so hits are underestimated.`);
  if (lost > 0) doubt('batches-lost', share(lost, lost + applied), `${many(lost, 'batch', 'batches')} lost: blocks stored there are unknown, and blocks removed there still count as resident.`);
  if (isLifeUncertain) doubt('life-uncertain', 0.3, 'The connection was made anew with batches missing, and no replay told whether the engine restarted meanwhile: blocks from before may be gone.');
  else if (strays > 0) doubt('life-uncertain', 0.3, `${many(strays, 'batch', 'batches')} left out that came with numbers of batches before, and were others: the engine may have restarted with its clock put back, and its blocks from before may be gone.`);
  if (waiting > 0) doubt('batches-waiting', share(waiting, waiting + applied), `${many(waiting, 'message', 'messages')} refused by pdscope's own full queue and not replaced yet.`);
  if (badMessages > 0) doubt('messages-unreadable', share(badMessages, badMessages + applied), `${many(badMessages, 'message', 'messages')} could not be read: what they stored or removed is unknown.`);
}

function eventDoubts(facts: StreamFacts, doubt: Doubt): void {
  const { events, badEvents, unknownEvents, unknownRemovals, removedBlocks, unseen, lost, badMessages } = facts;
  if (badEvents > 0) doubt('events-unreadable', share(badEvents, events), `${many(badEvents, 'event', 'events')} could not be read: what they stored or removed is unknown.`);
  if (unknownEvents > 0) doubt('events-unknown', Math.min(0.5, Math.max(0.01, unknownEvents / Math.max(1, events))), `${many(unknownEvents, 'event', 'events')} of a kind that pdscope does not know, which may have stored or removed blocks.`);
  // After a late start or a loss they are only its echo.
  const isExplained = unseen + lost + badMessages + badEvents > 0;
  if (unknownRemovals > 0 && !isExplained) doubt('removals-unknown', Math.min(0.5, unknownRemovals / Math.max(1, removedBlocks)), `${many(unknownRemovals, 'removal', 'removals')} of blocks never seen stored, though nothing was missed: the engine does not announce all stores.`);
}

/** Three times the share, between 0.01 and 0.9. */
function share(part: number, whole: number): number {
  return Math.min(0.9, Math.max(0.01, (3 * part) / Math.max(1, whole)));
}

function combined(doubts: readonly KvDoubt[]): KvConfidence {
  return { confidence: doubts.reduce((product, { weight }) => product * (1 - weight), 1), reasons: heaviestFirst(doubts) };
}

function heaviestFirst(doubts: readonly KvDoubt[]): KvDoubt[] {
  return doubts.toSorted((a, b) => b.weight - a.weight);
}

function many(count: number, one: string, others: string): string {
  return `${count} ${count === 1 ? one : others}`;
}
