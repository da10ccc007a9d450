import type { ReactElement } from 'react';
import type { Finding } from '#shared/findings.ts';
import { inOrder, useFindings } from '../../findings/use-findings.ts';
import { formatAgo, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import classes from './overview.module.css';

const MOST_SHOWN = 5;

/** The worst open findings, each in one line; the rest is one click away. */
export function FindingsSection({ nowUnixMs }: { readonly nowUnixMs: number }): ReactElement {
  const { page, error } = useFindings(false);
  const findings = inOrder(page?.findings ?? []);
  const rest = findings.length - MOST_SHOWN;
  return (
    <section aria-label="Open findings">
      <SectionHead title={page === undefined ? 'Open findings' : `Open findings · ${formatInteger(findings.length)}`}>
        {rest > 0 && <ViewLink to={{ view: 'findings', selection: '' }}>{`${formatInteger(rest)} more`}</ViewLink>}
        {page !== undefined && findings.length === 0 && (
          <span className={classes.chartNote}>
            none; <ViewLink to={{ view: 'findings' }}>what is watched</ViewLink>
          </span>
        )}
      </SectionHead>
      {error !== undefined && page === undefined && (
        <div className={classes.findingsError}>
          <Message tone="warning">{error.message}</Message>
        </div>
      )}
      {findings.length > 0 && (
        <div className={classes.tableScroll}>
          <table className={classes.findings} aria-label="Open findings">
            <tbody>
              {findings.slice(0, MOST_SHOWN).map((finding) => (
                <FindingLine key={finding.id} finding={finding} nowUnixMs={nowUnixMs} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function FindingLine({ finding, nowUnixMs }: { readonly finding: Finding; readonly nowUnixMs: number }): ReactElement {
  const about = [finding.instanceName, finding.connector, `${formatInteger(finding.count)}×`].filter((part) => part !== undefined);
  const latest = finding.evidence[0]?.message ?? finding.nextStep;
  return (
    <tr>
      <td><SeverityMark severity={finding.severity} /></td>
      <th scope="row" title={finding.title}>
        <b>{finding.title}</b> <span className={classes.findingAbout}>{about.join(' · ')}</span>
      </th>
      <td className={classes.findingMessage} title={latest}>{latest}</td>
      <td className={classes.right} title={formatDateTime(finding.lastAtUnixMs)}>{formatAgo(Math.ceil(nowUnixMs / 1000) * 1000 - finding.lastAtUnixMs)}</td>
      <td className={classes.right}>
        <ViewLink to={{ view: 'findings', selection: finding.id }} title={finding.nextStep}>evidence</ViewLink>
      </td>
    </tr>
  );
}
