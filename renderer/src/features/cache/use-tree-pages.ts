/** The pages of the prefix tree that are open, asked for in turn while somebody looks. */
import { useEffect, useState } from 'react';
import { errorMessage } from '#shared/errors.ts';
import type { OperationInput } from '#shared/operations.ts';
import { useConnection, useTransport } from '../../transport/transport-context.tsx';
import { TOP, type LoadedPage } from './tree-lines.ts';

const REFRESH_MS = 3000;
/** Children listed per node; the rest is counted. */
const MOST_CHILDREN = 200;

export type TreeOptions = Pick<OperationInput<'cache.tree'>, 'instance' | 'orderBy'>;

interface Loaded {
  readonly optionsJson: string;
  readonly pages: ReadonlyMap<number, LoadedPage>;
}

/**
 * The top and each open node, one question at a time: those never asked first, then all again every three seconds.
 * Other options start afresh.
 */
export function useTreePages(options: TreeOptions, open: ReadonlySet<number>): ReadonlyMap<number, LoadedPage> {
  const transport = useTransport();
  const isOpen = useConnection().phase === 'open';
  const optionsJson = JSON.stringify(options);
  const openText = [...open].join(',');
  const [loaded, setLoaded] = useState<Loaded>({ optionsJson, pages: new Map() });

  useEffect(() => {
    if (!isOpen) return undefined;
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const keys = [TOP, ...openText.split(',').filter((key) => key !== '').map(Number)];
    const input = JSON.parse(optionsJson) as TreeOptions;
    const keep = (key: number, change: (before: LoadedPage | undefined) => LoadedPage): void => {
      if (isStopped) return;
      setLoaded((before) => {
        const pages = new Map(before.optionsJson === optionsJson ? before.pages : []);
        pages.set(key, change(pages.get(key)));
        // Pages of closed nodes go: they would be stale when opened again, and the map would only grow.
        for (const one of pages.keys()) if (!keys.includes(one)) pages.delete(one);
        return { optionsJson, pages };
      });
    };
    const askOne = async (key: number): Promise<void> => {
      try {
        const page = await transport.call('cache.tree', { ...input, limit: MOST_CHILDREN, ...(key !== TOP && { node: key }) });
        keep(key, () => ({ page }));
      } catch (cause) {
        keep(key, (before) => ({ ...before, error: errorMessage(cause) }));
      }
    };
    const askAll = async (): Promise<void> => {
      // Newest opened first: the person waits for that one.
      if (!document.hidden) for (const key of keys.toReversed()) if (!isStopped) await askOne(key);
      if (!isStopped) timer = setTimeout(() => void askAll(), REFRESH_MS);
    };
    void askAll();
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }, [transport, isOpen, optionsJson, openText]);

  return loaded.optionsJson === optionsJson ? loaded.pages : new Map();
}
