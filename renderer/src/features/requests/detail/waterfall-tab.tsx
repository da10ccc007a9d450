import { useMemo, type ReactElement } from 'react';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { PHASE_COLOR, PHASE_LABEL } from '../../../theme/palette.ts';
import { formatMs } from '../../../ui/format.ts';
import { Message } from '../../../ui/message.tsx';
import { errorWords } from '../error-words.ts';
import { breakdownParts, cachedSentence, gaugeSentences } from './breakdown.ts';
import { VerdictList } from './verdict-list.tsx';
import { Waterfall } from './waterfall.tsx';
import classes from './detail.module.css';

/** The waterfall, the sum that explains the first token, and what the instances were doing. */
export function WaterfallTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  const { row } = detail;
  const sentences = useMemo(() => [...gaugeSentences(detail), cachedSentence(detail)].filter((text) => text !== undefined), [detail]);
  return (
    <div className={classes.tabBody}>
      {row.error !== undefined && <Message tone="error">{`${errorWords(row.error)} (${row.error.code})`}</Message>}
      <VerdictList verdicts={detail.verdicts} label="Findings on this request" />
      <Waterfall detail={detail} />
      <FirstTokenSum detail={detail} row={row} />
      {sentences.length > 0 && (
        <p className={classes.sentences}>
          {sentences.map((text) => (
            <span key={text}>{text}</span>
          ))}
        </p>
      )}
    </div>
  );
}

function FirstTokenSum({ detail, row }: { readonly detail: RequestDetail; readonly row: RequestRow }): ReactElement {
  if (detail.ttft === undefined) {
    const why = row.state === 'running' ? 'The first token has not come yet.' : 'No first token was seen, so there is no time to it.';
    return <p className={classes.sum}>{row.ttftMs === undefined ? why : `TTFT ${formatMs(row.ttftMs)} ms; its parts were not recorded.`}</p>;
  }
  return (
    <p className={classes.sum} data-testid="ttft-sum">
      TTFT {formatMs(detail.ttft.totalMs)} ={' '}
      {breakdownParts(detail.ttft).map((part, index) => (
        <span key={part.phase}>
          {index > 0 && ' + '}
          <span className={classes.sumPart}>
            <span
              className={part.isExact && part.phase !== 'unattributed' ? classes.swatch : `${classes.swatch} ${classes.swatchHatched}`}
              style={{ '--swatch': PHASE_COLOR[part.phase] }}
              aria-hidden="true"
            />
            <span title={part.isExact ? PHASE_LABEL[part.phase] : `${PHASE_LABEL[part.phase]}: an upper bound, between two processes`}>{part.text}</span>
            {part.phase === 'unattributed' && ' ms'}
          </span>
        </span>
      ))}
    </p>
  );
}
