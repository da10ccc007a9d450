import type { ReactElement } from 'react';
import type { CandidateScore, RequestDetail, RoutingDecision } from '#shared/request.ts';
import { trustPercent, trustTone } from '../../../blocks/trust.ts';
import { Fold } from '../../../ui/fold.tsx';
import { ABSENT, formatInteger, formatMs, formatPercent } from '../../../ui/format.ts';
import { Message } from '../../../ui/message.tsx';
import { Num } from '../../../ui/num.tsx';
import { rankedName } from '../../../ui/ranked-name.ts';
import { ChosenMark } from '../../../ui/chosen-mark.tsx';
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
          <Fold
            key={run.items[0]?.index}
            name={`choices-${(run.items[0]?.index ?? 0) + 1}`}
            className={classes.fold}
            summary={<><RoleMark role={run.kind} /> {tables.length} {run.kind} legs: {chosenSummary(run.items.map(({ item }) => chosenName(item)))}</>}
          >
            <div className={classes.legGroup}>{tables}</div>
          </Fold>
        );
      })}
    </div>
  );
}

function chosenName(decision: RoutingDecision): string {
  const chosen = decision.candidates.find((candidate) => candidate.instance === decision.chosen);
  return rankedName(chosen?.name ?? decision.chosen, decision.rank);
}

/** How the tokens that matches were counted against were had. */
const TOKENS_FROM: Readonly<Record<NonNullable<RoutingDecision['tokensFrom']>, string>> = { request: 'sent as token ids', render: 'rendered by an instance', tokenize: 'tokenised by an instance' };

function Decision({ decision }: { readonly decision: RoutingDecision }): ReactElement {
  const { degraded, promptTokens, tokensFrom } = decision;
  return (
    <div>
      {degraded !== undefined && <Message tone="warning">{decision.policy} balanced load instead: {degraded}</Message>}
      <DecisionTable decision={decision} />
      {promptTokens !== undefined && (
        <p className={classes.dim}>Matched by KV events against {formatInteger(promptTokens)} prompt tokens{tokensFrom !== undefined && `, ${TOKENS_FROM[tokensFrom]}`}.</p>
      )}
    </div>
  );
}

function DecisionTable({ decision }: { readonly decision: RoutingDecision }): ReactElement {
  const { promptTokens } = decision;
  // Policies that do not look at caches have no such column.
  const isByPrefix = promptTokens !== undefined || decision.candidates.some(({ matchedTokens }) => matchedTokens !== undefined);
  return (
    <table className={classes.smallTable}>
      <caption>
        <RoleMark role={decision.kind} /> {decision.kind} leg{decision.attempt > 1 && decision.kind !== 'encode' ? `, attempt ${decision.attempt}` : ''}: {decision.policy} chose{' '}
        <b>{chosenName(decision)}</b> at {formatMs(decision.atMs)} ms
      </caption>
      <thead>
        <tr>
          <th scope="col">instance</th><th scope="col" className={classes.numeric} title="Lower is better; absent when the policy does not score">score</th>
          {isByPrefix && <><th scope="col" className={classes.numeric} title="Tokens of the prompt, from its first on, that the instance held by its KV events">matched</th><th scope="col" className={classes.numeric}>blocks</th><th scope="col" className={classes.numeric}>of prompt</th><th scope="col" className={classes.numeric} title="How far its KV events could be trusted then">confidence</th></>}
          <th scope="col">reason</th>
        </tr>
      </thead>
      <tbody>
        {decision.candidates.map((candidate) => (
          <tr key={candidate.instance} data-chosen={candidate.instance === decision.chosen || undefined}>
            <th scope="row"><ChosenMark isChosen={candidate.instance === decision.chosen} />{candidate.instance === decision.chosen ? chosenName(decision) : candidate.name}</th>
            <td className={classes.numeric}>{candidate.score === undefined ? ABSENT : candidate.score.toLocaleString('en-US', { maximumFractionDigits: 2 })}</td>
            {isByPrefix && <MatchCells candidate={candidate} promptTokens={promptTokens} />}
            <td>{candidate.reason}</td>
          </tr>
        ))}
        {decision.excluded.map((candidate) => (
          <tr key={candidate.instance} data-excluded>
            <th scope="row"><ChosenMark isChosen={false} />{candidate.name}</th>
            <td className={classes.numeric}>excluded</td>
            {isByPrefix && <MatchCells candidate={candidate} promptTokens={promptTokens} />}
            <td>{candidate.reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What an instance held of the prompt; dashes where nothing tells. */
function MatchCells({ candidate, promptTokens }: { readonly candidate: CandidateScore; readonly promptTokens: number | undefined }): ReactElement {
  const { matchedTokens, matchedBlocks, confidence } = candidate;
  const share = matchedTokens === undefined || promptTokens === undefined || promptTokens === 0 ? undefined : matchedTokens / promptTokens;
  return (
    <>
      <td className={classes.numeric}><Num value={matchedTokens} format={formatInteger} /></td>
      <td className={classes.numeric}><Num value={matchedBlocks} format={formatInteger} /></td>
      <td className={classes.numeric}><Num value={share} format={formatPercent} unit="%" /></td>
      <td className={classes.numeric} data-tone={confidence === undefined ? undefined : trustTone(confidence)}><Num value={confidence} format={(value) => String(trustPercent(value))} unit="%" /></td>
    </>
  );
}
