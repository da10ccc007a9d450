import type { ReactElement } from 'react';
import { connectorWords, evidenceOf, groupFindings, instanceWords, nextStepsOf, type FindingGroup } from '../../findings/finding-groups.ts';
import { useFindings } from '../../findings/use-findings.ts';
import { formatAgo, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import classes from './overview.module.css';

const MOST_SHOWN = 5;
/** Instances named in a line; the rest is counted. */
const MOST_NAMES = 4;

/** The worst open diagnoses, each in one line whatever the number of its places; the rest is one click away. */
export function FindingsSection({ nowUnixMs }: { readonly nowUnixMs: number }): ReactElement {
  const { page, error } = useFindings(false);
  const groups = groupFindings(page?.findings ?? []);
  const rest = groups.length - MOST_SHOWN;
  return (
    <section aria-label="Open findings">
      <SectionHead title={page === undefined ? 'Open findings' : `Open findings · ${formatInteger(groups.length)}`}>
        {rest > 0 && <ViewLink to={{ view: 'findings', selection: '' }}>{`${formatInteger(rest)} more`}</ViewLink>}
        {page !== undefined && groups.length === 0 && (
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
      {groups.length > 0 && (
        <div className={classes.tableScroll}>
          <table className={classes.findings} aria-label="Open findings">
            <tbody>
              {groups.slice(0, MOST_SHOWN).map((group) => (
                <FindingLine key={group.id} group={group} nowUnixMs={nowUnixMs} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function FindingLine({ group, nowUnixMs }: { readonly group: FindingGroup; readonly nowUnixMs: number }): ReactElement {
  const about = [instanceWords(group.places, MOST_NAMES), connectorWords(group.places), `${formatInteger(group.count)}×`].filter((part) => part !== '');
  const [nextStep] = nextStepsOf(group);
  const latest = evidenceOf(group)[0]?.message ?? nextStep;
  return (
    <tr>
      <td><SeverityMark severity={group.severity} /></td>
      <th scope="row" title={`${group.title}: ${about.join(' · ')}`}>
        <b>{group.title}</b> <span className={classes.findingAbout}>{about.join(' · ')}</span>
      </th>
      <td className={classes.findingMessage} title={latest}>{latest}</td>
      <td className={classes.right} title={formatDateTime(group.lastAtUnixMs)}>{formatAgo(Math.ceil(nowUnixMs / 1000) * 1000 - group.lastAtUnixMs)}</td>
      <td className={classes.right}>
        <ViewLink to={{ view: 'findings', selection: group.id }} title={nextStep}>evidence</ViewLink>
      </td>
    </tr>
  );
}
