import type { ReactElement } from 'react';
import { placeWords, type PlacedEvidence } from '../../findings/finding-groups.ts';
import { ABSENT, formatClock, formatDateTime } from '../../ui/format.ts';
import { ViewLink } from '../../ui/view-link.tsx';
import classes from './findings.module.css';

export interface EvidenceTableProps {
  readonly evidence: readonly PlacedEvidence[];
  /** Says where each case was seen: of use when there are several places. */
  readonly hasPlaces: boolean;
}

/** The kept cases, with the request behind each. */
export function EvidenceTable({ evidence, hasPlaces }: EvidenceTableProps): ReactElement {
  const hasHops = evidence.some(({ hop }) => hop !== undefined);
  const hasRequests = evidence.some(({ request }) => request !== undefined);
  return (
    <div className={classes.evidence} role="region" aria-label="Evidence" tabIndex={0}>
      <table className={classes.evidenceTable}>
        <thead>
          <tr>
            <th scope="col">time</th>
            {hasPlaces && <th scope="col">place</th>}
            {hasHops && <th scope="col">hop</th>}
            <th scope="col">what was seen</th>
            {hasRequests && <th scope="col">request</th>}
          </tr>
        </thead>
        <tbody>
          {evidence.map((one, index) => (
            // Cases have no name of their own; the list is short and renewed whole.
            // oxlint-disable-next-line react/no-array-index-key
            <tr key={`${one.atUnixMs} ${index}`}>
              <td className={classes.mono} title={formatDateTime(one.atUnixMs)}>{formatClock(one.atUnixMs)}</td>
              {hasPlaces && <td>{placeWords(one.place)}</td>}
              {hasHops && <td>{one.hop ?? <span className={classes.dim}>{ABSENT}</span>}</td>}
              <td className={classes.message}>{one.message}</td>
              {hasRequests && (
                <td>
                  {one.request === undefined ? (
                    <span className={classes.dim} title="not about one request">{ABSENT}</span>
                  ) : (
                    <ViewLink to={{ view: 'requests', selection: one.request.id, tab: '' }} title={`Open ${one.request.requestId}`}>
                      {`#${one.request.n}`}
                    </ViewLink>
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
