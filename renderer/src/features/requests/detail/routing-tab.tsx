import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { CandidateScore, RequestDetail, RoutingDecision } from '#shared/request.ts';
import { trustPercent, trustTone } from '../../../blocks/trust.ts';
import { Fold } from '../../../ui/fold.tsx';
import { ABSENT, formatCount, formatInteger, formatMs, formatPercent } from '../../../ui/format.ts';
import { Message } from '../../../ui/message.tsx';
import { Num } from '../../../ui/num.tsx';
import { rankedName } from '../../../ui/ranked-name.ts';
import { ChosenMark } from '../../../ui/chosen-mark.tsx';
import { RoleMark } from '../../../ui/role-mark.tsx';
import { useFold } from '../../../url/use-fold.ts';
import { chosenSummary, runsOf } from './leg-groups.ts';
import classes from './detail.module.css';

/** Instances of a decision, chosen or not, from which its table is folded, and how many then stay in sight. */
const FOLDED_FROM = 16;
const MOST_SHOWN = 8;

/** Each routing decision with every candidate, and who could not be one. */
export function RoutingTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  if (detail.decisions.length === 0) {
    return <div className={classes.tabBody}><p className={classes.dim}>No instance was chosen: the request ended before scheduling.</p></div>;
  }
  return (
    <div className={classes.tabBody}>
      {runsOf(detail.decisions).map((run) => {
        const tables = run.items.map(({ item, index }) => <Decision key={index} name={`candidates-${index + 1}`} decision={item} />);
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

interface DecisionProps {
  /** Of its fold. */
  readonly name: string;
  readonly decision: RoutingDecision;
}

function Decision({ name, decision }: DecisionProps): ReactElement {
  const { degraded, promptTokens, tokensFrom } = decision;
  return (
    <div>
      {degraded !== undefined && <Message tone="warning">{decision.policy} balanced load instead: {degraded}</Message>}
      <DecisionTable name={name} decision={decision} />
      {promptTokens !== undefined && (
        <p className={classes.dim}>Matched by KV events against {formatInteger(promptTokens)} prompt tokens{tokensFrom !== undefined && `, ${TOKENS_FROM[tokensFrom]}`}.</p>
      )}
    </div>
  );
}

function DecisionTable({ name, decision }: DecisionProps): ReactElement {
  const { promptTokens } = decision;
  const [isAllShown, setAllShown] = useFold(name);
  const all = candidateRows(decision);
  const canFold = all.length >= FOLDED_FROM;
  const isFolded = canFold && !isAllShown;
  const shown = isFolded ? all.slice(0, MOST_SHOWN) : all;
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
        {shown.map(({ candidate, isExcluded }) => {
          const isChosen = !isExcluded && candidate.instance === decision.chosen;
          return (
            <tr key={candidate.instance} data-chosen={isChosen || undefined} data-excluded={isExcluded || undefined}>
              <th scope="row"><ChosenMark isChosen={isChosen} />{isChosen ? chosenName(decision) : candidate.name}</th>
              <td className={classes.numeric}>{isExcluded ? 'excluded' : candidate.score === undefined ? ABSENT : candidate.score.toLocaleString('en-US', { maximumFractionDigits: 2 })}</td>
              {isByPrefix && <MatchCells candidate={candidate} promptTokens={promptTokens} />}
              <td>{candidate.reason}</td>
            </tr>
          );
        })}
      </tbody>
      {canFold && (
        <tfoot>
          <tr>
            <td colSpan={isByPrefix ? 7 : 3}>
              <Button onClick={() => setAllShown(isFolded)} aria-expanded={!isFolded}>{isFolded ? restWords(all.slice(MOST_SHOWN)) : `Show the best ${MOST_SHOWN} only`}</Button>
            </td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}

interface CandidateRow {
  readonly candidate: CandidateScore;
  readonly isExcluded: boolean;
}

/** As the policy gave them, the excluded last; so many that they fold, with the chosen one and then the best at the top. */
function candidateRows({ candidates, excluded, chosen }: RoutingDecision): readonly CandidateRow[] {
  const rows = [...candidates.map((candidate) => ({ candidate, isExcluded: false })), ...excluded.map((candidate) => ({ candidate, isExcluded: true }))];
  if (rows.length < FOLDED_FROM) return rows;
  const rank = ({ candidate, isExcluded }: CandidateRow): number => (isExcluded ? Infinity : candidate.instance === chosen ? -Infinity : (candidate.score ?? Number.MAX_VALUE));
  // Equal ranks are compared first: infinities have no difference.
  return rows.toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}

/** `Show 12 more candidates, 3 excluded`. */
function restWords(rest: readonly CandidateRow[]): string {
  const excluded = rest.filter(({ isExcluded }) => isExcluded).length;
  const others = rest.length - excluded;
  return `Show ${[...(others > 0 ? [formatCount(others, 'more candidate')] : []), ...(excluded > 0 ? [`${formatInteger(excluded)} excluded`] : [])].join(', ')}`;
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
