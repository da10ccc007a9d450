import { Checkbox, NativeSelect } from '@mantine/core';
import type { ReactElement } from 'react';
import type { ProtocolSettings } from '#shared/protocol.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import classes from './instances.module.css';

/** Settings of the protocols; each takes effect at once, for requests that begin afterwards. */
export function ProtocolSettingsSection({ settings, connector }: { readonly settings: ProtocolSettings; readonly connector: ConnectorName }): ReactElement {
  const operation = useOperation('protocol.set');
  const set = (change: Partial<ProtocolSettings>): void => void operation.run(change);
  return (
    <>
      <SectionHead title="Settings">
        <span className={classes.note}>for new requests</span>
      </SectionHead>
      <div className={classes.block}>
        <Checkbox
          label="Hold back legs that would kill or hang an engine"
          description="Such a leg is answered with 502 and the reason. Off: it is sent, and the finding says so."
          checked={settings.blockFatal}
          disabled={operation.isRunning}
          onChange={(event) => set({ blockFatal: event.currentTarget.checked })}
        />
        <Checkbox
          label="Run decode without stream and re-emit it as one"
          description={`For conversations over nixl-bidirectional: engines give the parameters of the next turn in whole answers only. Clients see no token before the last one is done.${connector === 'nixl-bidirectional' ? '' : ` ${connector} does not use it.`}`}
          checked={settings.reemitStreams}
          disabled={operation.isRunning}
          onChange={(event) => set({ reemitStreams: event.currentTarget.checked })}
        />
        <NativeSelect
          label="Encode stage"
          description="Before any connector: images, audio and video of a request go to encode instances first."
          className={classes.narrow ?? ''}
          value={settings.encodeStage}
          disabled={operation.isRunning}
          data={[
            { value: 'auto', label: 'auto: when encode instances are there and the request has media' },
            { value: 'off', label: 'off' },
          ]}
          onChange={(event) => set({ encodeStage: event.currentTarget.value === 'off' ? 'off' : 'auto' })}
        />
        {operation.error !== undefined && <Message tone="error">{operation.error.message}</Message>}
      </div>
    </>
  );
}
