import type { ReactElement } from 'react';
import type { Verdict } from '#shared/findings.ts';
import { useEngineSelector } from '../../../stores/engine-context.tsx';
import { SeverityMark } from '../../../ui/severity-mark.tsx';
import { ViewLink } from '../../../ui/view-link.tsx';
import { worstFirst } from './verdicts.ts';
import classes from './detail.module.css';

/** What was concluded about the request, with what was seen and what to do; nothing when there is nothing. */
export function VerdictList({ verdicts, label }: { readonly verdicts: readonly Verdict[]; readonly label: string }): ReactElement | undefined {
  if (verdicts.length === 0) return undefined;
  return (
    <ul className={classes.verdicts} aria-label={label}>
      {worstFirst(verdicts).map((verdict, index) => (
        // Two equal verdicts at one hop differ in nothing but their place.
        // oxlint-disable-next-line react/no-array-index-key
        <VerdictItem key={`${verdict.code}${index}`} verdict={verdict} />
      ))}
    </ul>
  );
}

function VerdictItem({ verdict }: { readonly verdict: Verdict }): ReactElement {
  const name = useEngineSelector((engine) => engine?.instances.find((instance) => instance.id === verdict.instance)?.name);
  return (
    <li className={classes.verdict} data-severity={verdict.severity}>
      <SeverityMark severity={verdict.severity} />
      <div>
        <p className={classes.verdictTitle}>
          <b>{verdict.title}</b>
          <span className={classes.dim}>
            {verdict.hop !== undefined && ` ${verdict.hop}`}
            {name !== undefined && ` · ${name}`}
            {verdict.effect !== undefined && ` · ${verdict.effect} the engine`}
            {verdict.isBlocked === true && ' · leg held back'}
          </span>
        </p>
        <p className={classes.verdictText}>{verdict.message}</p>
        <p className={classes.verdictText}>
          Next step: {verdict.nextStep}{' '}
          <ViewLink to={{ view: 'findings', filter: `code:${verdict.code}`, selection: '' }} title="All cases of this finding">all cases</ViewLink>
        </p>
      </div>
    </li>
  );
}
