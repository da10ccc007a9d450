import type { ReactElement, ReactNode } from 'react';
import { ViewLink } from '../ui/view-link.tsx';
import { formatBlockRef, type BlockRef } from './block-ref.ts';

export interface BlockLinkProps {
  readonly block: BlockRef;
  readonly children: ReactNode;
  readonly title: string;
}

/** Opens Block detail beside the prefix tree, with nothing of the tree hidden. */
export function BlockLink({ block, children, title }: BlockLinkProps): ReactElement {
  return <ViewLink to={{ view: 'cache', tab: 'tree', filter: '', scope: '', metric: '', selection: formatBlockRef(block) }} title={title}>{children}</ViewLink>;
}
