/** What the colours of the residency map say: six steps each, so that a legend can name every one. */
import type { ResidencyRow } from '#shared/cache.ts';

export const COLOURINGS = ['age', 'reuse', 'owners'] as const;
export type Colouring = (typeof COLOURINGS)[number];

export interface Step {
  readonly label: string;
  /** Values from here on, up to the next step's. */
  readonly from: number;
  /** 1 (faint) to 6 (strong), a `--pd-ramp-` variable. */
  readonly ramp: number;
}

export interface Scale {
  readonly title: string;
  /** From the lowest value to the highest. */
  readonly steps: readonly Step[];
  readonly values: (row: ResidencyRow) => readonly number[];
}

const step = (label: string, from: number, ramp: number): Step => ({ label, from, ramp });

/** A mean over a bin of several blocks is rarely whole: steps of counts begin half-way. */
export const SCALES: Readonly<Record<Colouring, Scale>> = {
  age: {
    title: 'time since the block was stored',
    steps: [step('< 10 s', 0, 6), step('< 1 min', 10, 5), step('< 5 min', 60, 4), step('< 15 min', 300, 3), step('< 1 h', 900, 2), step('≥ 1 h', 3600, 1)],
    values: (row) => row.ageS,
  },
  reuse: {
    title: 'times stored or announced again',
    steps: [step('never', 0, 1), step('once', 0.5, 2), step('2–3×', 1.5, 3), step('4–7×', 3.5, 4), step('8–15×', 7.5, 5), step('≥ 16×', 15.5, 6)],
    values: (row) => row.reuse,
  },
  owners: {
    title: 'streams that hold the same content',
    steps: [step('1', 0, 1), step('2', 1.5, 3), step('3', 2.5, 4), step('4–7', 3.5, 5), step('≥ 8', 7.5, 6)],
    values: (row) => row.holders,
  },
};

/** The colouring of a link; age for anything unknown. */
export function colouringOf(metric: string): Colouring {
  return COLOURINGS.find((one) => one === metric) ?? 'age';
}

/** Index of the step that a value falls into. */
export function stepOf(scale: Scale, value: number): number {
  let found = 0;
  scale.steps.forEach(({ from }, index) => {
    if (value >= from) found = index;
  });
  return found;
}

/** Cells per step: the distribution that the table shows. */
export function countSteps(scale: Scale, row: ResidencyRow): readonly number[] {
  const counts = scale.steps.map(() => 0);
  for (const value of scale.values(row)) {
    const index = stepOf(scale, value);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return counts;
}
