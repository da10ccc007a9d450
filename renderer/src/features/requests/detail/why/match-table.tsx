import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { MissReport } from '#shared/cache.ts';
import { ChosenMark } from '../../../../ui/chosen-mark.tsx';
import { formatCount, formatInteger, formatPercent } from '../../../../ui/format.ts';
import table from '../../../../ui/plain-table.module.css';
import { InstanceName } from '../../../../ui/role-mark.tsx';
import { useFold } from '../../../../url/use-fold.ts';
import classes from './why.module.css';

/** Streams listed, the best first and the chosen one anyway; the rest is folded. */
const MOST_SHOWN = 10;

/** What every stream would have had of the prompt, the chosen one marked. */
export function MatchTable({ report }: { readonly report: MissReport }): ReactElement {
  const { matches, promptTokens } = report;
  const [isAllShown, setAllShown] = useFold('matches');
  if (matches.length === 0) return <p className={classes.dim}>No stream could be compared.</p>;
  const best = Math.max(...matches.map(({ tokens }) => tokens));
  const isFolded = matches.length > MOST_SHOWN + 1 && !isAllShown;
  const shown = isFolded ? matches.filter(({ wasChosen }, at) => at < MOST_SHOWN || wasChosen) : matches;
  const rest = matches.length - shown.length;
  const chosen = matches.find(({ wasChosen }) => wasChosen);
  return (
    <div className={classes.matches}>
      <table className={table.table}>
        <caption>Matched at that time, by stream</caption>
        <thead>
          <tr><th scope="col">stream</th><th scope="col">matched</th><th scope="col" data-align="end">tokens</th><th scope="col" data-align="end">of prompt</th></tr>
        </thead>
        <tbody>
          {shown.map((match) => (
            <tr key={match.stream} data-chosen={match.wasChosen || undefined}>
              <th scope="row"><ChosenMark isChosen={match.wasChosen} /><InstanceName role={match.role} name={`${match.instanceName}/${match.stream.slice(match.stream.lastIndexOf('/') + 1)}`} />{match.wasChosen && <span className={classes.dim}> chosen</span>}</th>
              <td>
                <span className={classes.matchTrack} aria-hidden="true"><span style={{ width: `${promptTokens === undefined || promptTokens === 0 ? 0 : Math.min(100, (match.tokens / promptTokens) * 100)}%` }} /></span>
              </td>
              <td data-align="end" title={match.isLeast === true ? 'It may have been more: blocks that went since then are forgotten' : undefined}>{match.isLeast === true && '≥ '}{formatInteger(match.tokens)}</td>
              <td data-align="end">{promptTokens === undefined || promptTokens === 0 ? '—' : `${formatPercent(match.tokens / promptTokens)} %`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {matches.length > MOST_SHOWN + 1 && (
        <div>
          <Button onClick={() => setAllShown(!isAllShown)} aria-expanded={isAllShown}>
            {isFolded ? `Show ${formatCount(rest, 'more stream')}, ${formatInteger(Math.max(...matches.slice(MOST_SHOWN).map(({ tokens }) => tokens)))} tokens at most` : `Show the best ${MOST_SHOWN} only`}
          </Button>
        </div>
      )}
      {chosen !== undefined && chosen.isLeast !== true && chosen.tokens < best && <p className={classes.warning}>▲ Another stream would have had {formatInteger(best - chosen.tokens)} tokens more.</p>}
    </div>
  );
}
