import { Button } from '@mantine/core';
import { memo, type ReactElement } from 'react';
import type { RowsView } from '../stores/row-store.ts';
import { formatInteger } from '../ui/format.ts';

export interface PauseButtonProps {
  readonly isPaused: boolean;
  readonly paused: RowsView<unknown>['paused'];
  readonly onToggle: () => void;
}

/** Freezes the list while recording goes on, and says how full the buffer behind it is. */
export const PauseButton = memo(function PauseButton({ isPaused, paused, onToggle }: PauseButtonProps): ReactElement {
  return (
    <Button
      onClick={onToggle}
      aria-pressed={isPaused}
      title={
        paused === undefined
          ? 'Freeze the list; recording goes on (p)'
          : `${formatInteger(paused.arrived)} arrived; ${formatInteger(paused.held)} of ${formatInteger(paused.capacity)} held, beyond that the oldest go (p)`
      }
    >
      {paused === undefined ? 'pause' : `resume · ${formatInteger(paused.arrived)} arrived · buffer ${Math.round((100 * paused.held) / paused.capacity)} %`}
    </Button>
  );
});
