/** What a filter can ask about a KV event row. */
import type { KvRow } from '../kv.ts';
import { KV_ROW_KINDS } from '../vocabulary.ts';
import type { FilterField } from './field.ts';

/** Keys of the KV events view, in the order in which they are suggested. */
export const KV_FILTER_FIELDS: readonly FilterField<KvRow>[] = [
  { key: 'type', aliases: ['event'], type: 'enum', values: KV_ROW_KINDS, says: 'event', summary: 'stored, removed, cleared, or what pdscope noticed: gap, filled, lost, restart, error', isText: true, get: (row) => row.kind },
  { key: 'instance', type: 'string', match: 'exact', says: 'instance', summary: 'Instance by name: P0', isText: true, get: (row) => [row.instanceName, row.instance] },
  { key: 'rank', type: 'number', unit: 'count', says: 'rank', summary: 'Data-parallel rank', get: (row) => row.rank },
  { key: 'stream', type: 'string', match: 'prefix', says: 'stream', summary: 'Stream: instance/rank', isText: true, get: (row) => [row.stream, `${row.instanceName}/${row.rank}`] },
  { key: 'medium', type: 'string', match: 'exact', says: 'medium', summary: 'GPU, CPU, ... as the engine says', isText: true, get: (row) => row.medium },
  { key: 'hash', type: 'string', match: 'hex', says: 'block hash', summary: 'Beginning of a block hash in hex, of the first 1,024 of an event', isText: true, get: (row) => row.hashes },
  { key: 'parent', type: 'string', match: 'hex', says: 'parent hash', summary: 'Beginning of the parent hash in hex', isText: true, get: (row) => row.parent },
  { key: 'token', type: 'numbers', says: 'token id', summary: 'Has this token id; events of long ago are known by their first 32 tokens', get: (row) => row.tokens },
  { key: 'tokens', type: 'number', unit: 'count', says: 'tokens', summary: 'Number of tokens of the event', get: (row) => row.tokenCount },
  { key: 'blocks', type: 'number', unit: 'count', says: 'blocks', summary: 'Number of block hashes of the event: blocks>8', get: (row) => row.hashCount },
  { key: 'seq', type: 'number', unit: 'count', says: 'sequence number', summary: 'Batch number of the stream; seq:100..200', get: (row) => row.seq },
  { key: 'epoch', type: 'number', unit: 'count', says: 'epoch', summary: 'Life of the engine, counted at restarts', get: (row) => row.epoch },
  { key: 'lora', type: 'string', match: 'substring', says: 'LoRA', summary: 'Part of the LoRA name, or its id', isText: true, get: lora },
  { key: 'group', type: 'number', unit: 'count', says: 'cache group', summary: 'KV cache group index', get: (row) => row.groupIdx },
  { key: 'kind', type: 'string', match: 'substring', says: 'cache spec', summary: 'Kind of the KV cache spec', isText: true, get: (row) => row.specKind },
  { key: 'locality', type: 'string', match: 'substring', says: 'locality', summary: 'Locality the engine stated', isText: true, get: (row) => row.locality },
  { key: 'ownership', type: 'string', match: 'substring', says: 'ownership', summary: 'Ownership the engine stated', isText: true, get: (row) => row.ownership },
  { key: 'session', type: 'string', match: 'substring', says: 'session', summary: 'Part of the session id', isText: true, get: (row) => row.sessionId },
  { key: 'extra', type: 'string', match: 'substring', says: 'extra keys', summary: 'Part of extra_keys as JSON', isText: true, get: (row) => row.extraKeys },
  { key: 'note', type: 'string', match: 'substring', says: 'note', summary: 'Part of what pdscope noted; note:* has one', isText: true, get: (row) => row.note },
  { key: 'n', type: 'number', unit: 'count', says: 'number', summary: 'Running number over all streams', get: (row) => row.n },
];

function lora(row: KvRow): readonly string[] | undefined {
  if (row.loraName === undefined && row.loraId === undefined) return undefined;
  return [...(row.loraName === undefined ? [] : [row.loraName]), ...(row.loraId === undefined ? [] : [String(row.loraId)])];
}
