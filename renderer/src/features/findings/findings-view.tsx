import type { ReactElement } from 'react';
import { ViewHeader } from '../../shell/view-header.tsx';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';

/** What pdscope concluded, worst first. */
export function FindingsView(): ReactElement {
  const page = usePolledQuery('findings.list', {}, 1000).value;
  return (
    <>
      <ViewHeader title="Findings" />
      {page === undefined || page.findings.length === 0 ? (
        <EmptyState title="Nothing found" text="pdscope watches the transfer parameters of every request at every hop." />
      ) : (
        <ul>
          {page.findings.map((finding) => (
            <li key={finding.id}>
              <SeverityMark severity={finding.severity} /> {finding.title}, {finding.count} times. {finding.nextStep}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
