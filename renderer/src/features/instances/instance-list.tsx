import type { ReactElement } from 'react';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineState } from '#shared/state.ts';
import { ROLES } from '#shared/vocabulary.ts';
import { InstanceCell } from '../../fleet/instance-cell.tsx';
import { describeInstance, describeStreams } from '../../fleet/instance-state.ts';
import { streamContext } from '../../fleet/stream-words.ts';
import { ABSENT, formatInteger } from '../../ui/format.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import records from '../../ui/record-table.module.css';

export interface InstanceListProps {
  readonly engine: EngineState;
  readonly selection: string;
  readonly onSelect: (id: InstanceId) => void;
}

/** Every instance, by role; a click selects. */
export function InstanceList({ engine, selection, onSelect }: InstanceListProps): ReactElement {
  const ordered = ROLES.flatMap((role) => engine.instances.filter((instance) => instance.role === role));
  return (
    <div className={records.scroll}>
      <table className={records.table} aria-label="Instances">
        <thead>
          <tr>
            <th scope="col">instance</th>
            <th scope="col">state</th>
            <th scope="col" className={records.right}>in flight</th>
            <th scope="col" className={records.right} title="in the last 5 min">errors</th>
            <th scope="col">stream</th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((instance) => {
            const state = describeInstance(instance, engine.nowUnixMs);
            const stream = describeStreams(engine.streams.filter((one) => one.instance === instance.id), streamContext(instance, engine.nowUnixMs));
            return (
              <tr
                key={instance.id}
                data-selected={instance.id === selection}
                onClick={() => onSelect(instance.id)}
              >
                <th scope="row">
                  <InstanceCell instance={instance} isCurrent={instance.id === selection} onOpen={() => onSelect(instance.id)} />
                </th>
                <td>
                  <StateMark tone={state.tone} title={state.explanation}>
                    {state.words}
                  </StateMark>
                </td>
                <td className={records.right}>{formatInteger(instance.inFlight)}</td>
                <td className={records.right}>{formatInteger(instance.errors5m)}</td>
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
