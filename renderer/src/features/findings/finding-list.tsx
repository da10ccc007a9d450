import { useEffect, useRef, type ReactElement, type Ref } from 'react';
import type { Finding } from '#shared/findings.ts';
import { moveOfKey, type Move } from '../../table/selection.ts';
import { ABSENT, formatAgo, formatDateTime, formatInteger } from '../../ui/format.ts';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import classes from './findings.module.css';

export interface FindingListProps {
  readonly findings: readonly Finding[];
  readonly selection: string;
  readonly onSelect: (id: string) => void;
  /** Arrows, Home, End and paging while the list has the focus. */
  readonly onMove: (move: Move) => void;
  /** The engine's clock. */
  readonly nowUnixMs: number;
  readonly isHighlighted: ((finding: Finding) => boolean) | undefined;
  readonly ref?: Ref<HTMLDivElement>;
}

/** One line per finding. The engine keeps a few hundred at most, so all of them are drawn. */
export function FindingList({ findings, selection, onSelect, onMove, nowUnixMs, isHighlighted, ref }: FindingListProps): ReactElement {
  const selectedRow = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (selection !== '') selectedRow.current?.scrollIntoView({ block: 'nearest' });
  }, [selection]);
  return (
    <div
      ref={ref}
      className={classes.scroll}
      role="region"
      aria-label="List of findings"
      tabIndex={0}
      onKeyDown={(event) => {
        const move = moveOfKey(event);
        if (move === undefined) return;
        event.preventDefault();
        onMove(move);
      }}
    >
      <table className={classes.table} aria-label="Findings">
        <thead>
          <tr>
            <th scope="col">severity</th>
            <th scope="col" className={classes.wide}>finding</th>
            <th scope="col" className={classes.optional}>instance</th>
            <th scope="col" className={classes.optional} title="P/D protocol in use when it was seen">connector</th>
            <th scope="col" className={classes.right} title="How often it was seen">count</th>
            <th scope="col" className={classes.right} title="Legs held back because of it">blocked</th>
            <th scope="col" className={classes.right}>last seen</th>
          </tr>
        </thead>
        <tbody>
          {findings.map((finding) => (
            <tr
              key={finding.id}
              ref={finding.id === selection ? selectedRow : undefined}
              data-selected={finding.id === selection}
              data-highlighted={isHighlighted?.(finding) || undefined}
              data-dismissed={finding.isDismissed || undefined}
              onClick={() => onSelect(finding.id)}
            >
              <td><SeverityMark severity={finding.severity} /></td>
              <th scope="row" className={classes.wide} title={finding.title}>
                <span className={classes.titleCell}>
                  <button type="button" className={classes.titleButton} aria-current={finding.id === selection} onClick={() => onSelect(finding.id)}>
                    {finding.title}
                  </button>
                  {finding.isDismissed && <span className={classes.dim}> dismissed</span>}
                </span>
                {/* Stands in for two columns where the list is narrow. */}
                <span className={classes.subline}>{aboutWords(finding)}</span>
              </th>
              <td className={classes.optional}>{finding.instanceName ?? finding.instance ?? <span className={classes.dim}>{ABSENT}</span>}</td>
              <td className={classes.optional}>{finding.connector ?? <span className={classes.dim}>{ABSENT}</span>}</td>
              <td className={classes.right}>{formatInteger(finding.count)}</td>
              <td className={classes.right}>{finding.blocked === 0 ? <span className={classes.dim}>0</span> : formatInteger(finding.blocked)}</td>
              <td className={classes.right} title={formatDateTime(finding.lastAtUnixMs)}>{formatAgo(nowUnixMs - finding.lastAtUnixMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** `D1 · nixl`; what it is not about is left out. */
function aboutWords({ instanceName, instance, connector }: Finding): string {
  return [instanceName ?? instance, connector].filter((part) => part !== undefined).join(' · ') || 'the whole fleet';
}
