/**
 * Which divergences are one cause to an engineer: the same timestamp wherever it stands in a template, questions that
 * differ in a user message however long what comes before them is, prompts that share no block with any other. Pure.
 */
import { differenceOf, type DivergenceText } from './cause-title.ts';
import type { MissShare } from './kept-report.ts';

/** What is known of the divergences under one key. */
export interface CauseGroup {
  /** In which part of the prompt. */
  readonly where: string | undefined;
  /** `timestamp`, `identifier`, `number`; undefined: just other text. */
  readonly what: string | undefined;
  /** The words before it, without what varies. */
  readonly stem: string;
}

/** Up to three words right before, which name a varying field, e.g. `Current time`. */
const STEM = /(\p{L}+(?: \p{L}+){0,2})[^\p{L}]*$/u;
/** What a date has before the digit that differs: `2026-11-21T04:`. */
const BEGUN_TIME = /\d[\d.:/-]*(?:[T ][\d.:]*)?$/u;

export function groupOf(text: DivergenceText): CauseGroup {
  const [, stem = ''] = STEM.exec(text.lead.slice(-64).replace(BEGUN_TIME, '')) ?? [];
  const found = differenceOf(text);
  // Numbers in what users write are part of the question.
  const what = found === 'number' && !isFixed(text.where) ? undefined : found;
  return { where: text.where, what, stem: stem.toLowerCase() };
}

/** The share under the key of its group. `blockSize`: of the prompt's blocks. */
export function grouped(share: MissShare, { where, what, stem }: CauseGroup, blockSize: number): MissShare {
  const { place } = share;
  if (place === undefined) return share;
  // Beside other text in the first block, nothing of the prompt was ever seen but how a template begins.
  if (what === undefined && place.token < blockSize) return { kind: 'never-stored', key: 'never-stored', title: 'never seen before', tokens: share.tokens };
  const named = where === undefined ? share : { ...share, place: { ...place, where } };
  if (what !== undefined) return { ...named, key: `${share.kind} ${what} ${where ?? ''} ${stem}` };
  return where === undefined ? named : { ...named, key: `${share.kind} text ${where}` };
}

/** Parts that are the same in all requests of an application. */
function isFixed(where: string | undefined): boolean {
  return where === 'the system prompt' || where === 'the tool definitions';
}
