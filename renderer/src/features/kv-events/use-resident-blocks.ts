/** The resident blocks that match, asked for again every two seconds while somebody looks. */
import { useDebouncedValue } from '@mantine/hooks';
import { useEffect } from 'react';
import { StreamIdSchema } from '#shared/ids.ts';
import type { OperationInput } from '#shared/operations.ts';
import { useOperation, type Operation } from '../../transport/use-operation.ts';

const REFRESH_MS = 2000;
const TYPING_MS = 250;
/** Blocks listed at most; the counts are of all. Each is drawn, and in a flood each is another one every time. */
const MOST_LISTED = 60;

export interface ResidentQuery {
  /** Stream id; '' = all. */
  readonly stream: string;
  /** '' = all. */
  readonly medium: string;
  /** Hex prefix; '' = all. */
  readonly hash: string;
}

/** The operation's input; undefined while the hash typed is not hex. */
export function residentInput({ stream, medium, hash }: ResidentQuery): OperationInput<'kv.blocks'> | undefined {
  const prefix = hash.trim().toLowerCase().replace(/^0x/u, '').replace(/…$/u, '');
  if (!/^[0-9a-f]{0,128}$/u.test(prefix)) return undefined;
  const parsed = StreamIdSchema.safeParse(stream);
  return {
    limit: MOST_LISTED,
    ...(parsed.success && { stream: parsed.data }),
    ...(medium !== '' && { medium }),
    ...(prefix !== '' && { hash: prefix }),
  };
}

export function useResidentBlocks(query: ResidentQuery): Pick<Operation<'kv.blocks'>, 'value' | 'error'> {
  const { run, value, error } = useOperation('kv.blocks');
  const [settled] = useDebouncedValue(query, TYPING_MS);
  const { stream, medium, hash } = settled;
  useEffect(() => {
    const input = residentInput({ stream, medium, hash });
    if (input === undefined) return undefined;
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // The next question waits for the last answer: a slow engine is asked less often.
    const ask = async (): Promise<void> => {
      if (!document.hidden) await run(input);
      if (!isStopped) timer = setTimeout(() => void ask(), REFRESH_MS);
    };
    void ask();
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }, [run, stream, medium, hash]);
  return { value, error };
}
