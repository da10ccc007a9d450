import type { ReactElement } from 'react';
import { MISS_KINDS, type MissKind } from '#shared/cache.ts';
import { MISS_LOOK, type MissLook } from './miss-kinds.ts';
import classes from './blocks.module.css';

/** Fill of a verdict inside an SVG that has `MissPatterns` with the same prefix. */
export function missFill(kind: MissKind, idPrefix: string): string {
  const { pattern, color } = MISS_LOOK[kind];
  return pattern === 'solid' ? color : `url(#${idPrefix}${kind})`;
}

/** The patterns of all verdicts, for `<defs>`. */
export function MissPatterns({ idPrefix }: { readonly idPrefix: string }): ReactElement {
  return <>{MISS_KINDS.filter((kind) => MISS_LOOK[kind].pattern !== 'solid').map((kind) => <Pattern key={kind} id={`${idPrefix}${kind}`} look={MISS_LOOK[kind]} />)}</>;
}

function Pattern({ id, look: { pattern, color } }: { readonly id: string; readonly look: MissLook }): ReactElement {
  return (
    <pattern id={id} width={6} height={6} patternUnits="userSpaceOnUse">
      <rect width={6} height={6} fill={color} opacity={pattern === 'empty' ? 0.12 : 0.28} />
      <path d={PATHS[pattern]} stroke={color} strokeWidth={1.6} fill="none" />
    </pattern>
  );
}

const PATHS: Readonly<Record<MissLook['pattern'], string>> = {
  solid: '', empty: '',
  diagonal: 'M-1 1l2 -2M0 6l6 -6M5 7l2 -2', backward: 'M-1 5l2 2M0 0l6 6M5 -1l2 2',
  vertical: 'M1.5 0v6', horizontal: 'M0 1.5h6', dots: 'M1 2h2M4 5h2', cross: 'M0 0l6 6M0 6l6 -6', dense: 'M1 0v6M3 0v6M5 0v6',
};

/** Small square with a verdict's fill; the word stands beside it. */
export function MissSwatch({ kind }: { readonly kind: MissKind }): ReactElement {
  const { pattern, color } = MISS_LOOK[kind];
  const id = `pd-miss-swatch-${kind}`;
  return (
    <svg className={classes.swatch} width={12} height={12} aria-hidden="true">
      {pattern !== 'solid' && <defs><Pattern id={id} look={MISS_LOOK[kind]} /></defs>}
      <rect x={0.5} y={0.5} width={11} height={11} fill={pattern === 'solid' ? color : `url(#${id})`} stroke={color} />
    </svg>
  );
}
