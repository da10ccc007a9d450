import { Button } from '@mantine/core';
import { useMemo, useState, type ReactElement } from 'react';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { SERVE_EXAMPLE } from '../../fleet/examples.ts';
import { useCommands, type Command } from '../../shell/commands.ts';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useEngineState } from '../../stores/engine-context.tsx';
import { useConnection } from '../../transport/transport-context.tsx';
import { useOperation } from '../../transport/use-operation.ts';
import { usePending } from '../../transport/use-pending.ts';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Message } from '../../ui/message.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { AddInstance } from './add-instance.tsx';
import { ConnectorPanel } from './connector-panel.tsx';
import { FleetSettings } from './fleet-settings.tsx';
import { InstanceDetail } from './instance-detail.tsx';
import { InstanceList } from './instance-list.tsx';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';

/** Selecting this opens the form for a new instance. */
const NEW = 'new';

/** Manage the fleet: list on the left; the protocol of all, one instance, or the form for a new one on the right. */
export function InstancesView(): ReactElement {
  const engine = useEngineState();
  const connection = useConnection();
  const [{ selection }, setUrl] = useUrlState();
  const connectorSet = useOperation('connector.set');
  const [wanted, setWanted] = useState<ConnectorName>();
  const pending = usePending<ConnectorName>(engine?.connector ?? 'nixl');
  const onSwitch = async (connector: ConnectorName): Promise<void> => {
    setWanted(connector);
    pending.want(connector);
    if ((await connectorSet.run({ connector })) === undefined) pending.giveUp();
  };
  const ids = engine?.instances.map((instance) => instance.id).join(' ') ?? '';

  const commands = useMemo<readonly Command[]>(() => {
    const order = ids === '' ? [] : ids.split(' ');
    const step = (by: number) => () => {
      const index = order.indexOf(selection);
      const next = order[index === -1 ? 0 : Math.min(order.length - 1, Math.max(0, index + by))];
      if (next !== undefined) setUrl({ selection: next });
    };
    const keys = { group: 'Instances', isKeyOnly: true };
    return [
      { id: 'instances.next', title: 'Next instance', hotkey: 'j', run: step(1), ...keys },
      { id: 'instances.previous', title: 'Previous instance', hotkey: 'k', run: step(-1), ...keys },
      { id: 'instances.close', title: 'Close the detail', hotkey: 'escape', run: () => setUrl({ selection: '' }), ...keys },
      { id: 'instances.add', title: 'Add instance here', group: 'Instances', hotkey: 'a', run: () => setUrl({ selection: NEW }) },
    ];
  }, [ids, selection, setUrl]);
  useCommands(commands);

  if (engine === undefined) {
    return (
      <>
        <ViewHeader title="Instances" />
        <EmptyState
          title={connection.phase === 'waiting' || connection.phase === 'refused' ? 'Disconnected' : 'Connecting to the engine'}
          text={'reason' in connection ? connection.reason : 'The first state is on its way.'}
        />
      </>
    );
  }

  const selected = engine.instances.find((instance) => instance.id === selection);
  const close = (): void => setUrl({ selection: '' });
  const detail =
    selection === NEW ? (
      <AddInstance engine={engine} onAdded={(id) => setUrl({ selection: id })} onClose={close} />
    ) : selected !== undefined ? (
      <InstanceDetail key={selected.id} instance={selected} engine={engine} onClose={close} />
    ) : selection === '' ? (
      <ConnectorPanel engine={engine} isSwitching={connectorSet.isRunning} onSwitch={(connector) => void onSwitch(connector)} />
    ) : (
      <EmptyState title="No longer in the fleet" text={`The instance ${selection} was removed, or this link is from another run of pdscope.`} />
    );

  return (
    <>
      <ViewHeader title="Instances" actions={<Button onClick={() => setUrl({ selection: NEW })}>Add instance</Button>}>
        <FleetSettings engine={engine} connector={pending.shown} isSwitching={connectorSet.isRunning} onSwitch={(connector) => void onSwitch(connector)} />
      </ViewHeader>
      {connectorSet.error !== undefined && (
        <div className={classes.refused}>
          <Message tone="error">{`${wanted ?? 'The connector'} was refused, ${engine.connector} stays: ${connectorSet.error.message}`}</Message>
        </div>
      )}
      <SplitView
        id="instances"
        placement="beside"
        listPercent={46}
        list={
          engine.instances.length === 0 ? (
            <div className={records.scroll}>
              <EmptyState title="No instances yet" text="Add a running vLLM with its address, or start pdscope with the addresses of all.">
                <div>
                  <Button onClick={() => setUrl({ selection: NEW })}>Add instance</Button>
                </div>
                <CodeBlock code={SERVE_EXAMPLE} label="start command" />
              </EmptyState>
            </div>
          ) : (
            <InstanceList engine={engine} selection={selection} onSelect={(id) => setUrl({ selection: id })} />
          )
        }
        detail={detail}
      />
    </>
  );
}
