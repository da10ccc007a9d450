/** Two requests side by side, phase by phase. */
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { PHASES, type Phase } from '#shared/vocabulary.ts';
import { PHASE_LABEL } from '../../../theme/palette.ts';

export interface CompareLine {
  readonly label: string;
  readonly phase?: Phase;
  /** Absent = not observed. */
  readonly left: number | undefined;
  readonly right: number | undefined;
  /** right - left; absent when either is. */
  readonly difference: number | undefined;
  readonly unit: 'ms' | 'count';
}

/** Every phase that either has, then the figures. A missing side stays missing. */
export function compareDetails(left: RequestDetail, right: RequestDetail): readonly CompareLine[] {
  const phases = PHASES.flatMap((phase): CompareLine[] => {
    const a = phaseMs(left, phase);
    const b = phaseMs(right, phase);
    return a === undefined && b === undefined ? [] : [{ ...line(PHASE_LABEL[phase], a, b, 'ms'), phase }];
  });
  const figure = (label: string, key: FigureKey, unit: 'ms' | 'count'): CompareLine => line(label, left.row[key], right.row[key], unit);
  return [
    ...phases,
    figure('TTFT', 'ttftMs', 'ms'),
    figure('ITL median', 'itlMs', 'ms'),
    figure('TPOT', 'tpotMs', 'ms'),
    figure('E2EL', 'e2elMs', 'ms'),
    figure('prompt tokens', 'promptTokens', 'count'),
    figure('cached tokens', 'cachedTokens', 'count'),
    figure('output tokens', 'completionTokens', 'count'),
    figure('retries', 'retries', 'count'),
  ];
}

type FigureKey = {
  [K in keyof RequestRow]-?: NonNullable<RequestRow[K]> extends number ? K : never;
}[keyof RequestRow];

function phaseMs({ row, ttft }: RequestDetail, phase: Phase): number | undefined {
  const spans = row.phases.filter((span) => span.phase === phase);
  if (spans.length > 0) return spans.reduce((sum, span) => sum + span.endMs - span.startMs, 0);
  return phase === 'unattributed' ? ttft?.unattributedMs : undefined;
}

function line(label: string, left: number | undefined, right: number | undefined, unit: 'ms' | 'count'): CompareLine {
  return { label, left, right, unit, difference: left === undefined || right === undefined ? undefined : right - left };
}
