import type { ReactElement } from 'react';
import type { RequestDetail } from '#shared/request.ts';
import { PHASE_COLOR } from '../../../theme/palette.ts';
import { formatClock, formatInteger, formatMs } from '../../../ui/format.ts';
import { Num } from '../../../ui/num.tsx';
import { routeText } from '../route-words.ts';
import { compareDetails, type CompareLine } from './compare.ts';
import { lastMoment } from './waterfall-layout.ts';
import { Waterfall } from './waterfall.tsx';
import classes from './detail.module.css';

/** The pinned request against the selected one: both waterfalls on one axis, then line by line. */
export function CompareTab({ pinned, selected }: { readonly pinned: RequestDetail; readonly selected: RequestDetail }): ReactElement {
  const domainMs = Math.max(lastMoment(pinned), lastMoment(selected));
  return (
    <div className={classes.tabBody}>
      <h3 className={classes.hopTitle}>pinned {title(pinned)}</h3>
      <Waterfall detail={pinned} domainMs={domainMs} />
      <h3 className={classes.hopTitle}>selected {title(selected)}</h3>
      <Waterfall detail={selected} domainMs={domainMs} />
      <table className={classes.smallTable}>
        <caption>Phase by phase</caption>
        <thead>
          <tr><th scope="col">phase</th><th scope="col">pinned</th><th scope="col">selected</th><th scope="col">difference</th></tr>
        </thead>
        <tbody>
          {compareDetails(pinned, selected).map((line) => (
            <tr key={line.label}>
              <th scope="row">
                {line.phase !== undefined && <span className={classes.swatch} style={{ '--swatch': PHASE_COLOR[line.phase] }} aria-hidden="true" />}
                {line.label}
              </th>
              <Figure line={line} value={line.left} />
              <Figure line={line} value={line.right} />
              <td className={classes.numeric}><Num value={line.difference} format={(value) => signed(value, line)} title="one side was not observed" /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Figure({ line, value }: { readonly line: CompareLine; readonly value: number | undefined }): ReactElement {
  return (
    <td className={classes.numeric}>
      <Num value={value} format={line.unit === 'ms' ? formatMs : formatInteger} {...(line.unit === 'ms' && { unit: 'ms' })} />
    </td>
  );
}

function signed(value: number, line: CompareLine): string {
  const size = (line.unit === 'ms' ? formatMs : formatInteger)(Math.abs(value));
  return value === 0 ? '0' : `${value > 0 ? '+' : '−'}${size}`;
}

function title({ row }: RequestDetail): string {
  return `${row.requestId} · ${formatClock(row.receivedAtUnixMs)} · ${routeText(row.route) ?? 'no route'}`;
}
