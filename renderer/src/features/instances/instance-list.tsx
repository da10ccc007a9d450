import type { ReactElement } from 'react';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { ROLES } from '#shared/vocabulary.ts';
import { describeInstance, describeStreams } from '../../fleet/instance-state.ts';
import { ABSENT, formatInteger } from '../../ui/format.ts';
import { RoleMark } from '../../ui/role-mark.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import classes from './instances.module.css';

export interface InstanceListProps {
  readonly engine: EngineState;
  readonly selection: string;
  readonly onSelect: (id: InstanceId) => void;
}

/** Every instance, by role; a click selects. */
export function InstanceList({ engine, selection, onSelect }: InstanceListProps): ReactElement {
  const ordered = ROLES.flatMap((role) => engine.instances.filter((instance) => instance.role === role));
  return (
    <div className={classes.scroll}>
      <table className={classes.table} aria-label="Instances">
        <thead>
          <tr>
            <th scope="col">instance</th>
            <th scope="col">state</th>
            <th scope="col" className={classes.right}>in flight</th>
            <th scope="col" className={classes.right} title="in the last 5 min">errors</th>
            <th scope="col">stream</th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((instance) => {
            const state = describeInstance(instance, engine.nowUnixMs);
            const stream = describeStreams(engine.streams.filter((one) => one.instance === instance.id));
            return (
              <tr
                key={instance.id}
                data-selected={instance.id === selection}
                onClick={() => onSelect(instance.id)}
              >
                <th scope="row">
                  <span className={classes.nameCell}>
                    <RoleMark role={instance.role} />
                    <button type="button" className={classes.nameButton} aria-current={instance.id === selection} onClick={() => onSelect(instance.id)}>
                      {instance.name}
                    </button>
                    <span className={classes.address} title={`${instance.role}, ${instance.url}`}>
                      {instance.url.replace(/^https?:\/\//, '')}
                    </span>
                  </span>
                </th>
                <td>
                  <StateMark tone={state.tone} title={state.explanation}>
                    {state.words}
                  </StateMark>
                </td>
                <td className={classes.right}>{formatInteger(instance.inFlight)}</td>
                <td className={classes.right}>{formatInteger(instance.errors5m)}</td>
                <td>
                  {stream === undefined ? (
                    ABSENT
                  ) : (
                    <StateMark tone={stream.tone} title={stream.explanation}>
                      {stream.words}
                    </StateMark>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
