import { Button } from '@mantine/core';
import { useEffect, useRef, type ReactElement, type ReactNode } from 'react';
import classes from './ui.module.css';

export interface InlineConfirmProps {
  /** What will happen, with the numbers that matter. */
  readonly children: ReactNode;
  readonly confirmLabel: string;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
  /** A milder way to the same end, offered first. */
  readonly alternative?: { readonly label: string; readonly onChoose: () => void };
  readonly isRunning?: boolean;
}

/** Asks once, in place. Focus starts on the harmless answer; Esc cancels. */
export function InlineConfirm({ children, confirmLabel, onConfirm, onCancel, alternative, isRunning = false }: InlineConfirmProps): ReactElement {
  const cancelRef = useRef<HTMLButtonElement>(null);
  useEffect(() => cancelRef.current?.focus(), []);
  return (
    <div
      className={classes.confirm}
      role="alertdialog"
      aria-label={confirmLabel}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        onCancel();
      }}
    >
      <span className={classes.confirmText}>{children}</span>
      <span className={classes.confirmButtons}>
        {alternative !== undefined && (
          <Button onClick={alternative.onChoose} disabled={isRunning}>
            {alternative.label}
          </Button>
        )}
        <Button onClick={onConfirm} loading={isRunning}>
          {confirmLabel}
        </Button>
        <Button ref={cancelRef} onClick={onCancel} variant="subtle">
          Cancel
        </Button>
      </span>
    </div>
  );
}
