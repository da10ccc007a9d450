/** The multi-turn protocol's state as the Instances view shows it. */
import { MAX_STATUS_ROWS, type ConnectorStatus, type StatusCell, type StatusTable } from '#shared/protocol.ts';
import { cut } from '../../../cut-text.ts';
import { instanceCell } from '../instance-cell.ts';
import type { ConversationCache, ConversationRow } from './conversation-cache.ts';

/** What was seen besides the cache. */
export interface TurnCounts {
  /** Turns whose prefill failed with another instance's blocks and ran again without. */
  declined: number;
  /** Turns whose prefill had so much of the prompt in its own cache, by its own count, that it read no blocks. */
  notRead: number;
  /** Whole answers of a turn with a handoff, and how many of them told what the decode instance holds. */
  wholeAnswers: number;
  wholeAnswersWithParams: number;
  /** The same of streams. */
  streams: number;
  streamsWithParams: number;
  /** Streams made from a whole answer. */
  reemitted: number;
}

export function conversationStatus(cache: ConversationCache, counts: TurnCounts, isReemitting: boolean): ConnectorStatus {
  const { kept, reused, refused, expired, lost } = { ...cache.counts };
  const facts: [string, StatusCell][] = [
    ['Time to live of kept blocks, s', cache.ttlMs / 1000],
    ['Turns kept', kept],
    ['Turns reused', reused],
    ['Reuse refused', refused],
    ['Reuse declined by prefill', counts.declined],
    ['Not read by prefill', counts.notRead],
    ['Expired', expired],
    ['Lost with their instance', lost],
    ['Streams re-emitted', counts.reemitted],
    ['Memory, bytes', cache.bytes],
  ];
  return {
    connector: 'nixl-bidirectional',
    summary: 'As nixl; in conversations, prefill also reads the blocks that decode kept of the last turn. Needs conversation_id in the body, or X-Conversation-Id or X-Session-Id.',
    notices: notices(counts, isReemitting),
    facts: facts.map(([title, value]) => ({ title, value })),
    tables: [table(cache)],
  };
}

function notices(counts: TurnCounts, isReemitting: boolean): ConnectorStatus['notices'] {
  const found: { severity: 'info' | 'warning'; message: string }[] = [];
  if (isReemitting) {
    found.push({ severity: 'info', message: 'Streaming turns of conversations run decode without stream and are sent as a stream when complete: their first token arrives with the last.' });
  } else if (counts.streamsWithParams === 0) {
    found.push({
      severity: counts.streams > 0 ? 'warning' : 'info',
      message: 'vLLM tells what decode holds in whole answers only, not in streams: streaming turns are not reused. Let clients ask without stream, or turn re-emitted streams on.',
    });
  }
  if (counts.wholeAnswers > 0 && counts.wholeAnswersWithParams === 0) {
    found.push({
      severity: 'warning',
      message: 'No whole answer said what decode holds. Start all instances with "bidirectional_kv_xfer": true in kv_connector_extra_config.',
    });
  }
  return found;
}

function table(cache: ConversationCache): StatusTable {
  return {
    id: 'conversations',
    title: 'Conversations',
    summary: 'One row per conversation. Its blocks are used once, and given up when they are too old or their instance leaves or restarts.',
    columns: [
      { title: 'Conversation' },
      { title: 'Decode instance' },
      { title: 'Turns' },
      { title: 'Tokens kept' },
      { title: 'Last used', unit: 's ago' },
      { title: 'Expires in', unit: 's' },
      { title: 'Last outcome' },
    ],
    total: cache.size,
    rows: cache.rows(MAX_STATUS_ROWS).map(rowOf),
    capacity: cache.capacity,
    evicted: cache.counts.evicted,
    expired: cache.counts.expired,
  };
}

function rowOf({ id, last, turns, tokens, ageMs, expiresInMs, outcome }: ConversationRow): readonly StatusCell[] {
  return [
    cut(id, 64),
    last === undefined ? null : instanceCell(last.instance),
    turns,
    tokens ?? null,
    Math.round(ageMs / 1000),
    expiresInMs === undefined ? null : Math.round(expiresInMs / 1000),
    outcome,
  ];
}
