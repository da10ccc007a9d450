import type { ReactElement, ReactNode } from 'react';
import { useFold } from '../url/use-fold.ts';

export interface FoldProps {
  /** What links call it; unique in its view, without a comma. */
  readonly name: string;
  readonly summary: ReactNode;
  readonly children: ReactNode;
  readonly className?: string | undefined;
  readonly isOpenAtFirst?: boolean;
  /** Marks the one of several that is in force. */
  readonly isCurrent?: boolean;
}

/** A line that opens to what it sums up; its content is drawn only then. Whether it is open is part of the link to the page. */
export function Fold({ name, summary, children, className, isOpenAtFirst = false, isCurrent = false }: FoldProps): ReactElement {
  const [isOpen, setOpen] = useFold(name, isOpenAtFirst);
  return (
    <details className={className} open={isOpen} data-current={isCurrent || undefined} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && children}
    </details>
  );
}
