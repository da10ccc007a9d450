import { useId, useRef, type ReactElement } from 'react';
import type { MissRange } from '#shared/cache.ts';
import { MISS_LOOK } from '../../../../blocks/miss-kinds.ts';
import { missFill, MissPatterns, MissSwatch } from '../../../../blocks/miss-pattern.tsx';
import { useElementSize } from '../../../../table/use-element-size.ts';
import { formatInteger, formatPercent } from '../../../../ui/format.ts';
import { blockSpan, missSegments, tokensByKind } from './miss-bar-layout.ts';
import classes from './why.module.css';

const BAR_PX = 26;
const HEIGHT_PX = 44;
/** Room that a character of a label takes, and the padding around it, px. */
const CHAR_PX = 6;
const LABEL_PADDING_PX = 18;

/** The prompt from its first to its last token, each stretch with its verdict. */
export function MissBar({ ranges, promptTokens }: { readonly ranges: readonly MissRange[]; readonly promptTokens: number }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const { width } = useElementSize(box);
  const idPrefix = `pd${useId().replaceAll(/[^\w-]/gu, '')}`;
  const segments = missSegments(ranges, width);
  const kinds = tokensByKind(ranges);
  const whole = Math.max(1, promptTokens);
  return (
    <div>
      <div ref={box} className={classes.bar}>
        <svg width={width} height={HEIGHT_PX} role="img" aria-label={`The prompt by verdict: ${kinds.map(({ kind, tokens }) => `${MISS_LOOK[kind].label} ${formatInteger(tokens)} tokens`).join(', ')}`}>
          <defs><MissPatterns idPrefix={idPrefix} /></defs>
          {segments.map(({ range, x, width: size }) => {
            const look = MISS_LOOK[range.kind];
            const hasLabel = look.label.length * CHAR_PX + LABEL_PADDING_PX < size;
            return (
              <g key={range.fromBlock} transform={`translate(${x} 0)`}>
                <rect width={Math.max(1, size - 1)} height={BAR_PX} fill={missFill(range.kind, idPrefix)} stroke={look.color} strokeWidth={1} />
                {hasLabel && <text x={8} y={17} className={classes.barLabel}>{look.label}</text>}
                <title>{`${look.label}: ${blockSpan(range)}, ${formatInteger(range.tokens)} tokens. ${range.message}`}</title>
              </g>
            );
          })}
          <text x={0} y={HEIGHT_PX - 4} className={classes.axis}>token 0</text>
          <text x={width} y={HEIGHT_PX - 4} textAnchor="end" className={classes.axis}>{formatInteger(promptTokens)}</text>
        </svg>
      </div>
      <ul className={classes.legend} aria-label="Verdicts">
        {kinds.map(({ kind, tokens }) => (
          <li key={kind} title={MISS_LOOK[kind].meaning}>
            <MissSwatch kind={kind} /> {MISS_LOOK[kind].label} <b>{formatInteger(tokens)}</b> <span className={classes.dim}>{formatPercent(tokens / whole)} %</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
