import type { ReactElement } from 'react';
import type { RequestDetail, RoutingDecision } from '#shared/request.ts';
import { formatMs } from '../../../ui/format.ts';
import { RoleMark } from '../../../ui/role-mark.tsx';
import classes from './detail.module.css';

/** Each routing decision with every candidate, and who could not be one. */
export function RoutingTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  if (detail.decisions.length === 0) {
    return <div className={classes.tabBody}><p className={classes.dim}>No instance was chosen: the request ended before scheduling.</p></div>;
  }
  return (
    <div className={classes.tabBody}>
      {detail.decisions.map((decision) => (
        <Decision key={`${decision.kind}${decision.attempt}${decision.atMs}`} decision={decision} />
      ))}
    </div>
  );
}

function Decision({ decision }: { readonly decision: RoutingDecision }): ReactElement {
  const chosen = decision.candidates.find((candidate) => candidate.instance === decision.chosen);
  return (
    <table className={classes.smallTable}>
      <caption>
        <RoleMark role={decision.kind} /> {decision.kind} leg{decision.attempt > 1 ? `, attempt ${decision.attempt}` : ''}: {decision.policy} chose{' '}
        <b>{chosen?.name ?? decision.chosen}</b> at {formatMs(decision.atMs)} ms
      </caption>
      <thead>
        <tr><th scope="col">instance</th><th scope="col" title="Lower is better; absent when the policy does not score">score</th><th scope="col">reason</th></tr>
      </thead>
      <tbody>
        {decision.candidates.map((candidate) => (
          <tr key={candidate.instance} data-chosen={candidate.instance === decision.chosen || undefined}>
            <th scope="row">{candidate.instance === decision.chosen ? '▸ ' : ''}{candidate.name}</th>
            <td>{candidate.score === undefined ? '—' : candidate.score.toLocaleString('en-US', { maximumFractionDigits: 2 })}</td>
            <td>{candidate.reason}</td>
          </tr>
        ))}
        {decision.excluded.map((candidate) => (
          <tr key={candidate.instance} data-excluded>
            <th scope="row">{candidate.name}</th>
            <td>excluded</td>
            <td>{candidate.reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
