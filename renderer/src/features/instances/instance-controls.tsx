import { Button } from '@mantine/core';
import { useState, type ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { useInstanceActions } from '../../fleet/instance-actions.tsx';
import { formatCount } from '../../ui/format.ts';
import { InlineConfirm } from '../../ui/inline-confirm.tsx';
import { Message } from '../../ui/message.tsx';
import classes from './instances.module.css';

/** Drain, disable, enable, remove. Removing asks once, with what is in flight, and offers to drain instead. */
export function InstanceControls({ instance }: { readonly instance: InstanceView }): ReactElement {
  const actions = useInstanceActions();
  const [isConfirming, setConfirming] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const isDraining = instance.state === 'draining';
  const isOut = isDraining || instance.state === 'disabled';
  const inFlight = formatCount(instance.inFlight, 'request');

  const run = async (action: Promise<void>): Promise<void> => {
    setRunning(true);
    await action;
    setRunning(false);
    setConfirming(false);
  };

  return (
    <div className={classes.controls}>
      {isDraining && <Message tone="plain">{`Takes no new requests. ${inFlight} in flight; leaves when they are done.`}</Message>}
      {isConfirming ? (
        <InlineConfirm
          confirmLabel={instance.inFlight > 0 ? `Remove and cancel ${inFlight}` : 'Remove'}
          onConfirm={() => void run(actions.remove(instance, instance.inFlight > 0))}
          onCancel={() => setConfirming(false)}
          isRunning={isRunning}
          {...(!isDraining && { alternative: { label: 'Drain instead', onChoose: () => void run(actions.drain(instance)) } })}
        >
          {instance.inFlight > 0
            ? `${instance.name} has ${inFlight} in flight. Removing it now cancels them; ${isDraining ? 'waiting' : 'draining'} lets them finish.`
            : `Remove ${instance.name}? Nothing is in flight; it can be added again.`}
        </InlineConfirm>
      ) : (
        <div className={classes.buttons}>
          {!isDraining && (
            <Button disabled={isRunning} onClick={() => void run(actions.drain(instance))}>
              Drain, then remove
            </Button>
          )}
          {isOut ? (
            <Button disabled={isRunning} onClick={() => void run(actions.enable(instance))}>
              {isDraining ? 'Stop draining' : 'Enable'}
            </Button>
          ) : (
            <Button disabled={isRunning} onClick={() => void run(actions.disable(instance))}>
              Disable
            </Button>
          )}
          <Button disabled={isRunning} onClick={() => setConfirming(true)}>
            Remove …
          </Button>
        </div>
      )}
    </div>
  );
}
