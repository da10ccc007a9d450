/** An instance as a cell of a status table. */
import type { StatusCell } from '#shared/protocol.ts';
import type { Instance } from '../../fleet/instance.ts';

export function instanceCell({ id, name }: Instance): StatusCell {
  return { instance: id, name };
}
