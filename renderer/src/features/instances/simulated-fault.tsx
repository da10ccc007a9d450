import { Button, NativeSelect, NumberInput } from '@mantine/core';
import { useState, type ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { SIM_FAULTS, type SimFault } from '#shared/operations.ts';
import type { SimulationView } from '#shared/state.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

const FAULT_WORDS: Readonly<Record<SimFault, string>> = {
  none: 'none: behaves well',
  refuse: 'refuse connections',
  hang: 'accept and never answer',
  slow: 'answer slowly',
  'error-400': 'answer 400',
  'error-500': 'answer 500',
  reset: 'reset the connection before answering',
  'reset-mid-stream': 'reset in mid-stream',
  'empty-200': '200 with nothing in it',
  'event-gap': 'skip KV-event batches',
  restart: 'restart the engine (sequence starts at 0)',
  'drop-lease': 'drop leases of handed-over blocks',
  'wrong-cached-tokens': 'call every prompt token cached in answers',
};
const AMOUNT_LABEL: Partial<Record<SimFault, string>> = { slow: 'times slower', 'event-gap': 'batches to skip' };

/** Makes a simulated instance misbehave, to see what pdscope shows then. */
export function SimulatedFault({ instance, simulation }: { readonly instance: InstanceView; readonly simulation: SimulationView | undefined }): ReactElement {
  const operation = useOperation('sim.fault');
  const current = simulation?.faults.find((one) => one.instance === instance.id)?.fault;
  const [fault, setFault] = useState<SimFault>('slow');
  const [amount, setAmount] = useState<number | string>('');
  const amountLabel = AMOUNT_LABEL[fault];
  const inject = (chosen: SimFault): void => {
    void operation.run({
      id: instance.id,
      fault: chosen,
      ...(typeof amount === 'number' && AMOUNT_LABEL[chosen] !== undefined && { amount }),
    });
  };
  return (
    <>
      <SectionHead title="Fault of the simulator">
        <span className={classes.note}>{current === undefined || current === 'none' ? 'none' : `▲ ${current}`}</span>
      </SectionHead>
      <div className={pane.block}>
        <div className={classes.buttons}>
          <NativeSelect
            aria-label="Fault"
            value={fault}
            data={SIM_FAULTS.filter((one) => one !== 'none').map((value) => ({ value, label: FAULT_WORDS[value] }))}
            onChange={(event) => setFault(SIM_FAULTS.find((one) => one === event.currentTarget.value) ?? 'slow')}
          />
          {amountLabel !== undefined && (
            <NumberInput aria-label={amountLabel} placeholder={amountLabel} value={amount} onChange={setAmount} min={1} className={classes.amount ?? ''} />
          )}
          <Button onClick={() => inject(fault)} loading={operation.isRunning}>
            Inject
          </Button>
          <Button onClick={() => inject('none')} disabled={operation.isRunning || current === undefined || current === 'none'}>
            Clear
          </Button>
        </div>
        {operation.error !== undefined && <Message tone="error">{operation.error.message}</Message>}
      </div>
    </>
  );
}
