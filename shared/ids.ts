import { z } from 'zod';

/** Identifies an instance for the life of the engine process, e.g. `p0`. Never reused after removal. */
export const InstanceIdSchema = z.string().min(1).max(64).brand<'InstanceId'>();
export type InstanceId = z.infer<typeof InstanceIdSchema>;

/** pdscope's own key of one request record, unique within the engine process. Not the client's X-Request-Id, which may repeat. */
export const RecordIdSchema = z.string().min(1).max(64).brand<'RecordId'>();
export type RecordId = z.infer<typeof RecordIdSchema>;

/** One KV-event stream: `<instance id>/<data-parallel rank>`. */
export const StreamIdSchema = z.string().min(3).max(96).brand<'StreamId'>();
export type StreamId = z.infer<typeof StreamIdSchema>;

/** Builds the id of the stream of one data-parallel rank of an instance. */
export function streamId(instance: InstanceId, rank: number): StreamId {
  return `${instance}/${rank}` as StreamId;
}
