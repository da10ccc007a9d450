import type { ReactElement } from 'react';
import type { Finding } from '#shared/findings.ts';
import { placeWords } from '../../findings/finding-groups.ts';
import { closedWords } from '../../findings/finding-words.ts';
import { formatAgo, formatDateTime, formatInteger } from '../../ui/format.ts';
import { LinkButton } from '../../ui/link-button.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import classes from './findings.module.css';

export interface PlaceTableProps {
  readonly places: readonly Finding[];
  /** The engine's clock. */
  readonly nowUnixMs: number;
  readonly onSelect: (id: string) => void;
}

/** Where a diagnosis holds; a click opens the place alone. */
export function PlaceTable({ places, nowUnixMs, onSelect }: PlaceTableProps): ReactElement {
  return (
    <div className={classes.evidence}>
      <table className={classes.evidenceTable} aria-label="Places">
        <thead>
          <tr>
            <th scope="col">severity</th>
            <th scope="col">place</th>
            <th scope="col">latest case</th>
            <th scope="col" className={classes.right}>count</th>
            <th scope="col" className={classes.right}>last seen</th>
          </tr>
        </thead>
        <tbody>
          {places.map((place) => (
            <tr key={place.id}>
              <td><SeverityMark severity={place.severity} /></td>
              <td>
                <LinkButton onClick={() => onSelect(place.id)}>{placeWords(place)}</LinkButton>
                {place.isDismissed && <span className={classes.dim}> {closedWords([place])}</span>}
              </td>
              <td className={classes.oneLine} title={place.evidence[0]?.message}>{place.evidence[0]?.message}</td>
              <td className={classes.right}>{formatInteger(place.count)}</td>
              <td className={classes.right} title={formatDateTime(place.lastAtUnixMs)}>{formatAgo(nowUnixMs - place.lastAtUnixMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
