import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { RequestDetail } from '#shared/request.ts';
import { PHASE_COLOR } from '../../../theme/palette.ts';
import { formatClock, formatInteger, formatMs } from '../../../ui/format.ts';
import { Message } from '../../../ui/message.tsx';
import { Num } from '../../../ui/num.tsx';
import type { Pin } from '../pins.ts';
import { routeText } from '../route-words.ts';
import { compareDetails, type CompareLine } from './compare.ts';
import { lastMoment } from './waterfall-layout.ts';
import { Waterfall } from './waterfall.tsx';
import classes from './detail.module.css';

export interface CompareTabProps {
  readonly pin: Pin;
  readonly selected: RequestDetail;
  readonly onUnpin: (id: string) => void;
}

/** The pinned request against the selected one. A link may name a pin that the engine no longer keeps. */
export function CompareTab({ pin, selected, onUnpin }: CompareTabProps): ReactElement {
  if (pin.detail !== undefined) return <Comparison pinned={pin.detail} selected={selected} />;
  return (
    <div className={classes.tabBody}>
      {pin.error === undefined ? (
        <p className={classes.dim}>Asking the engine for the pinned request {pin.id} …</p>
      ) : (
        <>
          <Message tone="warning">The pinned request {pin.id} cannot be compared: {pin.error}</Message>
          <div><Button onClick={() => onUnpin(pin.id)}>Unpin {pin.id}</Button></div>
        </>
      )}
    </div>
  );
}

/** Both waterfalls on one axis, then line by line. */
function Comparison({ pinned, selected }: { readonly pinned: RequestDetail; readonly selected: RequestDetail }): ReactElement {
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
          <tr><th scope="col">phase</th>{['pinned', 'selected', 'difference'].map((name) => <th key={name} scope="col" className={classes.numeric}>{name}</th>)}</tr>
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
