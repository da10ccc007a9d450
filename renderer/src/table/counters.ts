/** The honest line over a table: what is shown of what there is, and everything that is not. */
import type { RowCounters } from '#shared/wire.ts';

export interface CountersInput {
  /** Rows in the list. */
  readonly shown: number;
  /** Of the same snapshot as the rows; absent before the first. */
  readonly counters: RowCounters | undefined;
  /** Matching rows the engine did not send, because they came too fast. */
  readonly omitted: number;
  readonly skippedSnapshots: number;
  readonly resyncs: number;
}

export interface CounterPart {
  readonly label: string;
  readonly text: string;
  readonly title: string;
  /** Something was lost on the way to this page. */
  readonly isLoss: boolean;
}

const NUMBER = new Intl.NumberFormat('en-US');

/** Parts of the counters line, in order. Losses appear only when there are any; `dropped` always, because 0 is news. */
export function counterParts(input: CountersInput): readonly CounterPart[] {
  const { shown, counters, omitted, skippedSnapshots, resyncs } = input;
  if (counters === undefined) return [];
  const n = (value: number): string => NUMBER.format(value);
  const parts: CounterPart[] = [
    { label: 'shown', text: n(shown), title: 'Rows in this list; the oldest may have left the engine since', isLoss: false },
    {
      label: 'matching',
      text: `${n(counters.matching)} of ${n(counters.kept)}`,
      title: `Rows the engine keeps that match the filter, of all it keeps. ${n(counters.total)} were recorded since it started`,
      isLoss: false,
    },
    { label: 'total', text: n(counters.total), title: 'Rows recorded since the engine started', isLoss: false },
    { label: 'evicted', text: n(counters.evicted), title: 'Oldest rows that left the bounded history', isLoss: false },
    { label: 'dropped', text: n(counters.dropped), title: 'Not recorded because the engine was overloaded', isLoss: counters.dropped > 0 },
  ];
  if (omitted > 0) {
    parts.push({ label: 'omitted', text: n(omitted), title: 'Recorded and matching, but too fast to send to this page', isLoss: true });
  }
  if (skippedSnapshots > 0) {
    parts.push({ label: 'skipped', text: n(skippedSnapshots), title: 'Updates the engine left out because this page was slow; a fresh snapshot followed', isLoss: true });
  }
  if (resyncs > 0) {
    parts.push({ label: 'resyncs', text: n(resyncs), title: 'Times a hole in the updates made this page start again', isLoss: true });
  }
  return parts;
}
