import { NativeSelect, NumberInput } from '@mantine/core';
import { useState, type ReactElement } from 'react';
import type { EngineState } from '#shared/state.ts';
import { CONNECTORS, ConnectorNameSchema, POLICIES, PolicyNameSchema, type ConnectorName } from '#shared/vocabulary.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { Message } from '../../ui/message.tsx';
import classes from './instances.module.css';

export interface FleetSettingsProps {
  readonly engine: EngineState;
  /** What the select shows: the one in force, or the one being switched to. */
  readonly connector: ConnectorName;
  readonly isSwitching: boolean;
  readonly onSwitch: (connector: ConnectorName) => void;
}

/** Connector, policy and, in a demo, the offered load. Each takes effect for new requests, at once. */
export function FleetSettings({ engine, connector, isSwitching, onSwitch }: FleetSettingsProps): ReactElement {
  const policy = useOperation('policy.set');
  return (
    <div className={classes.settings}>
      <label className={classes.setting}>
        connector
        <NativeSelect
          aria-label="Connector"
          data={[...CONNECTORS]}
          value={connector}
          disabled={isSwitching}
          onChange={(event) => onSwitch(ConnectorNameSchema.parse(event.currentTarget.value))}
        />
      </label>
      <label className={classes.setting}>
        policy
        <NativeSelect
          aria-label="Policy"
          data={[...POLICIES]}
          value={engine.policy}
          disabled={policy.isRunning}
          onChange={(event) => void policy.run({ policy: PolicyNameSchema.parse(event.currentTarget.value) })}
        />
      </label>
      {engine.simulation !== undefined && <DemoTraffic offered={engine.simulation.requestsPerSecond} />}
      {policy.error !== undefined && <Message tone="error">{policy.error.message}</Message>}
    </div>
  );
}

function DemoTraffic({ offered }: { readonly offered: number }): ReactElement {
  const traffic = useOperation('sim.traffic');
  // While the person types, the field is theirs; else it shows what the engine says.
  const [draft, setDraft] = useState<number | string>();
  const commit = (): void => {
    if (typeof draft === 'number' && draft !== offered) void traffic.run({ requestsPerSecond: draft });
    setDraft(undefined);
  };
  return (
    <span className={classes.setting}>
      demo traffic
      <NumberInput
        aria-label="Demo traffic, requests per second"
        className={classes.rate ?? ''}
        value={draft ?? offered}
        min={0}
        max={2000}
        step={1}
        onChange={setDraft}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === 'Enter') commit();
        }}
      />
      req/s
      {traffic.error !== undefined && <Message tone="error">{traffic.error.message}</Message>}
    </span>
  );
}
