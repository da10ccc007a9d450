import { useComputedColorScheme } from '@mantine/core';
import { memo, useEffect, useRef, type PointerEvent, type ReactElement } from 'react';
import type { ResidencyRow } from '#shared/cache.ts';
import { rowName } from './cell-words.ts';
import { CELL_PX, PITCH_PX, capacityCells, cellAt, cellOrigin, linesOf, type MapLayout } from './residency-layout.ts';
import { stepOf, type Scale } from './residency-scale.ts';
import classes from './cache.module.css';

export interface ResidencyCanvasProps {
  readonly row: ResidencyRow;
  readonly layout: MapLayout;
  readonly scale: Scale;
  /** Node of the picked block: its cells are framed. */
  readonly picked: number | undefined;
  readonly onPoint: (cell: number | undefined) => void;
  readonly onPick: (cell: number) => void;
}

/** The cells of one row. What it shows is also in the table, for those who cannot point or see it. */
export const ResidencyCanvas = memo(function ResidencyCanvas({ row, layout, scale, picked, onPoint, onPick }: ResidencyCanvasProps): ReactElement {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useComputedColorScheme('dark');
  const { columns, cells } = layout;
  const count = Math.min(row.node.length, cells);
  const outlined = Math.max(count, capacityCells(row, cells) ?? 0);
  const width = columns * PITCH_PX;
  const height = linesOf(outlined, columns) * PITCH_PX;

  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (canvas.current === null || context === null || context === undefined) return;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.current.width = Math.round(width * ratio);
    canvas.current.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas.current);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    const ramp = scale.steps.map((step) => color(`--pd-ramp-${step.ramp}`));
    const values = scale.values(row);
    for (let index = 0; index < count; index += 1) {
      const { x, y } = cellOrigin(index, columns);
      context.fillStyle = ramp[stepOf(scale, values[index] ?? 0)] ?? '';
      context.fillRect(x, y, CELL_PX, CELL_PX);
    }
    // Free blocks: outlines, so that they cannot be taken for faint ones.
    context.strokeStyle = color('--pd-line');
    for (let index = count; index < outlined; index += 1) {
      const { x, y } = cellOrigin(index, columns);
      context.strokeRect(x + 0.5, y + 0.5, CELL_PX - 1, CELL_PX - 1);
    }
    if (picked === undefined) return;
    context.strokeStyle = color('--pd-warning');
    context.lineWidth = 2;
    row.node.slice(0, count).forEach((node, index) => {
      if (node !== picked) return;
      const { x, y } = cellOrigin(index, columns);
      context.strokeRect(x + 1, y + 1, CELL_PX - 2, CELL_PX - 2);
    });
    // `theme` is what the colours above are read for.
    // oxlint-disable-next-line react/exhaustive-deps, react/exhaustive-effect-dependencies
  }, [row, columns, count, outlined, width, height, scale, picked, theme]);

  const cellOf = (event: PointerEvent): number | undefined => {
    const box = event.currentTarget.getBoundingClientRect();
    return cellAt(event.clientX - box.left, event.clientY - box.top, { columns, count });
  };
  return (
    <canvas
      ref={canvas}
      className={classes.map}
      style={{ width, height }}
      role="img"
      aria-label={`${rowName(row)}: ${row.blocks} blocks, coloured by ${scale.title}; the table has the same`}
      onPointerMove={(event) => onPoint(cellOf(event))}
      onPointerLeave={() => onPoint(undefined)}
      onPointerDown={(event) => {
        const cell = cellOf(event);
        if (cell !== undefined) onPick(cell);
      }}
    />
  );
});
