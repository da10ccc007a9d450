import type { ReactElement } from 'react';
import type { RequestDetail, RoutingDecision } from '#shared/request.ts';
import { formatMs } from '../../../ui/format.ts';
import { rankedName } from '../../../ui/ranked-name.ts';
import { RoleMark } from '../../../ui/role-mark.tsx';
import { chosenSummary, runsOf } from './leg-groups.ts';
import classes from './detail.module.css';

/** Each routing decision with every candidate, and who could not be one. */
export function RoutingTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  if (detail.decisions.length === 0) {
    return <div className={classes.tabBody}><p className={classes.dim}>No instance was chosen: the request ended before scheduling.</p></div>;
  }
  return (
    <div className={classes.tabBody}>
      {runsOf(detail.decisions).map((run) => {
        const tables = run.items.map(({ item, index }) => <Decision key={index} decision={item} />);
        if (!run.isFolded) return tables;
        return (
          <details key={run.items[0]?.index} className={classes.fold}>
            <summary>
              <RoleMark role={run.kind} /> {tables.length} {run.kind} legs: {chosenSummary(run.items.map(({ item }) => chosenName(item)))}
            </summary>
            <div className={classes.legGroup}>{tables}</div>
          </details>
        );
      })}
    </div>
  );
}

function chosenName(decision: RoutingDecision): string {
  const chosen = decision.candidates.find((candidate) => candidate.instance === decision.chosen);
  return rankedName(chosen?.name ?? decision.chosen, decision.rank);
}

function Decision({ decision }: { readonly decision: RoutingDecision }): ReactElement {
  return (
    <table className={classes.smallTable}>
      <caption>
        <RoleMark role={decision.kind} /> {decision.kind} leg{decision.attempt > 1 && decision.kind !== 'encode' ? `, attempt ${decision.attempt}` : ''}: {decision.policy} chose{' '}
        <b>{chosenName(decision)}</b> at {formatMs(decision.atMs)} ms
      </caption>
      <thead>
        <tr><th scope="col">instance</th><th scope="col" title="Lower is better; absent when the policy does not score">score</th><th scope="col">reason</th></tr>
      </thead>
      <tbody>
        {decision.candidates.map((candidate) => (
          <tr key={candidate.instance} data-chosen={candidate.instance === decision.chosen || undefined}>
            <th scope="row">{candidate.instance === decision.chosen ? `▸ ${chosenName(decision)}` : candidate.name}</th>
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
