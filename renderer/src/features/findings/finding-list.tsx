import { useEffect, useRef, type KeyboardEvent, type ReactElement, type Ref } from 'react';
import { connectorWords, evidenceOf, instanceWords, placeWords, type FindingGroup } from '../../findings/finding-groups.ts';
import { closedWords } from '../../findings/finding-words.ts';
import { moveOfKey, type Move } from '../../table/selection.ts';
import { ABSENT, formatAgo, formatCount, formatDateTime, formatInteger } from '../../ui/format.ts';
import records from '../../ui/record-table.module.css';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import type { FindingLine } from './finding-lines.ts';
import classes from './findings.module.css';

export interface FindingListProps {
  readonly lines: readonly FindingLine[];
  readonly selection: string;
  readonly onSelect: (id: string) => void;
  /** Arrows, Home, End and paging while the list has the focus. */
  readonly onMove: (move: Move) => void;
  /** Shows or hides the places of a diagnosis. */
  readonly onFold: (code: string, isOpen: boolean) => void;
  /** The engine's clock. */
  readonly nowUnixMs: number;
  readonly isHighlighted: ((group: FindingGroup) => boolean) | undefined;
  readonly ref?: Ref<HTMLDivElement>;
}

/** Instances named in a cell; the rest is counted. */
const MOST_NAMES = 4;

/** One line per diagnosis. The engine keeps a few hundred findings at most, so all of them are drawn. */
export function FindingList({ lines, selection, onSelect, onMove, onFold, nowUnixMs, isHighlighted, ref }: FindingListProps): ReactElement {
  const selectedRow = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (selection !== '') selectedRow.current?.scrollIntoView({ block: 'nearest' });
  }, [selection]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const move = moveOfKey(event);
    const line = lines.find(({ id }) => id === selection);
    if (move !== undefined) onMove(move);
    else if (event.key === 'ArrowRight' && line?.kind === 'group') onFold(line.group.code, true);
    else if (event.key === 'ArrowLeft' && line !== undefined && line.kind !== 'single') onFold(line.group.code, false);
    else return;
    event.preventDefault();
  };
  return (
    <div ref={ref} className={records.scroll} role="region" aria-label="List of findings" tabIndex={0} onKeyDown={onKeyDown}>
      <table className={`${records.table} ${classes.table ?? ''}`} aria-label="Findings">
        <thead>
          <tr>
            <th scope="col">severity</th>
            <th scope="col" className={classes.wide}>finding</th>
            <th scope="col" className={classes.optional}>instance</th>
            <th scope="col" className={classes.optional} title="P/D protocol in use when it was seen">connector</th>
            <th scope="col" className={records.right} title="How often it was seen">count</th>
            <th scope="col" className={records.right} title="Legs held back because of it">blocked</th>
            <th scope="col" className={records.right}>last seen</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ id, group, kind, isOpen }) => (
            <tr
              key={id}
              ref={id === selection ? selectedRow : undefined}
              data-kind={kind}
              data-selected={id === selection}
              data-highlighted={isHighlighted?.(group) || undefined}
              data-dismissed={group.isDismissed || undefined}
              onClick={() => onSelect(id)}
            >
              <td><SeverityMark severity={group.severity} /></td>
              <th scope="row" className={classes.wide} title={group.title}>
                <span className={classes.titleCell}>
                  {kind === 'group' && <FoldButton group={group} isOpen={isOpen} onFold={onFold} />}
                  <button type="button" className={classes.titleButton} aria-current={id === selection} onClick={() => onSelect(id)}>
                    {kind === 'place' ? lineWords(group) : group.title}
                  </button>
                  {group.isDismissed && <span className={classes.dim}> {closedWords(group.places)}</span>}
                </span>
                <span className={classes.latest} title={evidenceOf(group)[0]?.message}>{evidenceOf(group)[0]?.message}</span>
                {/* Stands in for two columns where the list is narrow. */}
                {kind !== 'place' && <span className={classes.subline}>{lineWords(group)}</span>}
              </th>
              <td className={classes.optional}>{instanceWords(group.places, MOST_NAMES) || <span className={classes.dim}>{ABSENT}</span>}</td>
              <td className={classes.optional}>{connectorWords(group.places) || <span className={classes.dim}>{ABSENT}</span>}</td>
              <td className={records.right}>{formatInteger(group.count)}</td>
              <td className={records.right}>{group.blocked === 0 ? <span className={classes.dim}>0</span> : formatInteger(group.blocked)}</td>
              <td className={records.right} title={formatDateTime(group.lastAtUnixMs)}>{formatAgo(nowUnixMs - group.lastAtUnixMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FoldButton({ group, isOpen, onFold }: { readonly group: FindingGroup; readonly isOpen: boolean; readonly onFold: FindingListProps['onFold'] }): ReactElement {
  const places = formatCount(group.places.length, 'place');
  return (
    <button
      type="button"
      className={classes.fold}
      aria-expanded={isOpen}
      aria-label={`${places} of ${group.title}`}
      title={`${isOpen ? 'Hide' : 'Show'} ${places} (→ ←)`}
      onClick={(event) => {
        event.stopPropagation();
        onFold(group.code, !isOpen);
      }}
    >
      {isOpen ? '▾' : '▸'} {group.places.length}
    </button>
  );
}

/** `D1 · nixl`, or `4 places: D0 D1 D2 D3 · nixl`. */
function lineWords({ places }: FindingGroup): string {
  const [only] = places;
  if (places.length === 1 && only !== undefined) return placeWords(only);
  return `${formatCount(places.length, 'place')}: ${[instanceWords(places, MOST_NAMES), connectorWords(places)].filter((part) => part !== '').join(' · ') || 'the whole fleet'}`;
}
