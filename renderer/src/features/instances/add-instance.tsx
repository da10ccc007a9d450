import { Button, NativeSelect, NumberInput, TextInput } from '@mantine/core';
import { useEffect, useRef, useState, type ReactElement } from 'react';
import type { InstanceId } from '#shared/ids.ts';
import type { ProbeResult } from '#shared/operations.ts';
import type { EngineState } from '#shared/state.ts';
import { RoleSchema, ROLES } from '#shared/vocabulary.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { DetailHead } from '../../ui/detail-pane.tsx';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { canPrefill, EMPTY_FIELDS, readFields, type AddFormField, type AddFormFields } from './add-form.ts';
import pane from '../../ui/detail-pane.module.css';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';
import { ProbeReport } from './probe-report.tsx';

export interface AddInstanceProps {
  readonly engine: EngineState;
  readonly onAdded: (id: InstanceId) => void;
  readonly onClose: () => void;
}

/** Probe an address, see what answers, add it; by force where the engine allows that. */
export function AddInstance({ engine, onAdded, onClose }: AddInstanceProps): ReactElement {
  const [fields, setFields] = useState<AddFormFields>(EMPTY_FIELDS);
  const [problems, setProblems] = useState<Partial<Record<AddFormField, string>>>({});
  const probe = useOperation('instance.probe');
  const add = useOperation('instance.add');
  const isBusy = probe.isRunning || add.isRunning;
  // Typing starts at the address: a key typed elsewhere would be a shortcut of the page.
  const addressRef = useRef<HTMLInputElement>(null);
  useEffect(() => {
    addressRef.current?.focus();
  }, []);

  const change = (part: Partial<AddFormFields>): void => {
    setFields({ ...fields, ...part });
    setProblems({});
    probe.reset();
    add.reset();
  };
  const submit = async (what: 'probe' | 'add' | 'force'): Promise<void> => {
    const outcome = readFields(fields);
    if (!outcome.isValid) {
      setProblems(outcome.problems);
      return;
    }
    setProblems({});
    if (what === 'probe') {
      add.reset();
      await probe.run(outcome.spec);
      return;
    }
    const added = await add.run({ ...outcome.spec, force: what === 'force' });
    if (added !== undefined) onAdded(added.id);
    // A refusal is explained by what a probe sees, and only the probe knows whether force would help.
    else await probe.run(outcome.spec);
  };
  const serverMessage = add.error?.message ?? probe.error?.message;

  return (
    <section className={records.scroll} aria-label="Add instance">
      <DetailHead title="Add instance" onClose={onClose} />
      <form
        className={classes.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit('probe');
        }}
      >
        <NativeSelect label="Role" value={fields.role} data={[...ROLES]} onChange={(event) => change({ role: RoleSchema.parse(event.currentTarget.value) })} />
        <TextInput
          label="Address"
          description="host:port or http(s)://host:port; IPv6 in brackets"
          placeholder="10.0.0.1:8100"
          value={fields.url}
          ref={addressRef}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => change({ url: event.currentTarget.value })}
          error={problems.url ?? serverMessage}
        />
        <TextInput label="Name" description="shown everywhere; default by role and order, e.g. P2" value={fields.name} maxLength={32} autoComplete="off" onChange={(event) => change({ name: event.currentTarget.value })} error={problems.name} />
        <div className={classes.pair}>
          <NumberInput
            label="Data-parallel ranks behind it"
            description="empty: found out, else 1"
            value={fields.dpSize}
            min={1}
            max={1024}
            allowDecimal={false}
            onChange={(value) => change({ dpSize: typeof value === 'number' ? value : '' })}
            error={problems.dpSize}
          />
          {canPrefill(fields.role) && (
            <NumberInput
              label="Bootstrap port"
              description="mooncake only; empty: the protocol's"
              placeholder="8998"
              value={fields.bootstrapPort}
              min={1}
              max={65_535}
              allowDecimal={false}
              onChange={(value) => change({ bootstrapPort: typeof value === 'number' ? value : '' })}
              error={problems.bootstrapPort}
            />
          )}
        </div>
        <NumberInput
          label="KV cache bytes of one token"
          description="for sizes; empty: from /server_info, else measured by NIXL transfers"
          placeholder="147456"
          value={fields.kvBytesPerToken}
          min={1}
          max={67_108_864}
          allowDecimal={false}
          onChange={(value) => change({ kvBytesPerToken: typeof value === 'number' ? value : '' })}
          error={problems.kvBytesPerToken}
        />
        <KvEventFields fields={fields} problems={problems} onChange={change} />
        <div className={classes.buttons}>
          <Button type="submit" loading={probe.isRunning && !add.isRunning} disabled={isBusy}>
            Probe
          </Button>
          <Button variant="filled" loading={add.isRunning} disabled={isBusy} onClick={() => void submit('add')}>
            Add
          </Button>
        </div>
      </form>
      {probe.value !== undefined && <ProbeOutcome result={probe.value} engine={engine} isBusy={isBusy} onForce={() => void submit('force')} />}
    </section>
  );
}

function ProbeOutcome({ result, engine, isBusy, onForce }: { readonly result: ProbeResult; readonly engine: EngineState; readonly isBusy: boolean; readonly onForce: () => void }): ReactElement {
  const fleetModels = [...new Set(engine.instances.flatMap((instance) => instance.models))];
  return (
    <>
      <SectionHead title="What the probe found" />
      <div className={pane.block}>
        <ProbeReport result={result} fleetModels={fleetModels} />
        {result.problem !== undefined && result.canForce && (
          <div className={classes.force}>
            <Message tone="warning">
              It can join by force. Then pdscope schedules requests to it in spite of this, and they may fail or come back from another model.
            </Message>
            <Button onClick={onForce} disabled={isBusy}>
              Add by force
            </Button>
          </div>
        )}
      </div>
    </>
  );
}

interface KvEventFieldsProps {
  readonly fields: AddFormFields;
  readonly problems: Partial<Record<AddFormField, string>>;
  readonly onChange: (part: Partial<AddFormFields>) => void;
}

function KvEventFields({ fields, problems, onChange }: KvEventFieldsProps): ReactElement {
  const isOff = fields.endpoint.trim() === '';
  return (
    <fieldset className={classes.fieldset}>
      <legend>KV events (optional)</legend>
      <TextInput label="Endpoint" description="PUB socket of rank 0" placeholder="tcp://10.0.0.1:5557" value={fields.endpoint} autoComplete="off" spellCheck={false} onChange={(event) => onChange({ endpoint: event.currentTarget.value })} error={problems.endpoint} />
      <TextInput label="Replay endpoint" description="ROUTER socket of rank 0, if there is one" placeholder="tcp://10.0.0.1:5558" value={fields.replayEndpoint} autoComplete="off" spellCheck={false} onChange={(event) => onChange({ replayEndpoint: event.currentTarget.value })} error={problems.replayEndpoint} />
      <TextInput label="Topic" description="prefix; empty = everything" value={fields.topic} disabled={isOff} autoComplete="off" onChange={(event) => onChange({ topic: event.currentTarget.value })} error={problems.topic} />
      <div className={classes.pair}>
        <NumberInput label="Ranks to follow" value={fields.ranks} min={1} max={1024} allowDecimal={false} disabled={isOff} onChange={(value) => onChange({ ranks: typeof value === 'number' ? value : 1 })} error={problems.ranks} />
        <NativeSelect label="Mode" value={fields.mode} data={['connect', 'bind']} disabled={isOff} onChange={(event) => onChange({ mode: event.currentTarget.value === 'bind' ? 'bind' : 'connect' })} error={problems.mode} />
      </div>
    </fieldset>
  );
}
