import { Checkbox, NativeSelect, NumberInput } from '@mantine/core';
import type { ReactElement } from 'react';
import type { ProtocolSettings } from '#shared/protocol.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { usePending, type Pending } from '../../transport/use-pending.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

/** Settings of the protocols; each takes effect at once, for requests that begin afterwards. */
export function ProtocolSettingsSection({ settings, connector }: { readonly settings: ProtocolSettings; readonly connector: ConnectorName }): ReactElement {
  const operation = useOperation('protocol.set');
  const blockFatal = usePending(settings.blockFatal);
  const reemitStreams = usePending(settings.reemitStreams);
  const encodeStage = usePending(settings.encodeStage);
  const reportCache = usePending(settings.reportCache ?? false);
  const tokenize = usePending(settings.tokenizeForRouting ?? true);
  const skipTokens = usePending(settings.prefillSkipTokens ?? 0);
  const set = async <T,>(pending: Pending<T>, value: T, change: Partial<ProtocolSettings>): Promise<void> => {
    pending.want(value);
    if ((await operation.run(change)) === undefined) pending.giveUp();
  };
  return (
    <>
      <SectionHead title="Settings">
        <span className={classes.note}>for new requests</span>
      </SectionHead>
      <div className={pane.block}>
        <Checkbox
          label="Hold back legs that would kill or hang an engine"
          description="Such a leg is answered with 502 and the reason. Off: it is sent, and the finding says so."
          checked={blockFatal.shown}
          disabled={operation.isRunning}
          onChange={({ currentTarget: { checked } }) => void set(blockFatal, checked, { blockFatal: checked })}
        />
        <Checkbox
          label="Run decode without stream and re-emit it as one"
          description={`For conversations over nixl-bidirectional: engines give the parameters of the next turn in whole answers only. Clients see no token before the last one is done.${connector === 'nixl-bidirectional' ? '' : ` ${connector} does not use it.`}`}
          checked={reemitStreams.shown}
          disabled={operation.isRunning}
          onChange={({ currentTarget: { checked } }) => void set(reemitStreams, checked, { reemitStreams: checked })}
        />
        <NativeSelect
          label="Encode stage"
          description="Before any connector: images, audio and video of a request go to encode instances first."
          className={classes.narrow ?? ''}
          value={encodeStage.shown}
          disabled={operation.isRunning}
          data={[
            { value: 'auto', label: 'auto: when encode instances are there and the request has media' },
            { value: 'off', label: 'off' },
          ]}
          onChange={({ currentTarget: { value } }) => {
            const stage = value === 'off' ? 'off' : 'auto';
            void set(encodeStage, stage, { encodeStage: stage });
          }}
        />
        <Checkbox
          label="Ask engines to report blocks found in their cache"
          description="Adds kv_cache_report_mode to every request (vLLM since July 2026; older ones ignore it): hits become events, and an index that began late fills up."
          checked={reportCache.shown}
          disabled={operation.isRunning}
          onChange={({ currentTarget: { checked } }) => void set(reportCache, checked, { reportCache: checked })}
        />
        <Checkbox
          label="Tokenise prompts for routing"
          description="Policy prefix-aware asks an instance for a prompt's tokens before it is routed, 20 ms at most. Off: only prompts that come as tokens are routed by prefix."
          checked={tokenize.shown}
          disabled={operation.isRunning}
          onChange={({ currentTarget: { checked } }) => void set(tokenize, checked, { tokenizeForRouting: checked })}
        />
        <NumberInput
          label="Leave prefill out below"
          description="When a decode instance holds all but fewer than this many tokens of the prompt. 0: never."
          className={classes.narrow ?? ''}
          value={skipTokens.shown}
          min={0}
          max={1_000_000}
          allowDecimal={false}
          suffix=" tokens"
          disabled={operation.isRunning}
          onBlur={({ currentTarget: { value } }) => {
            const tokens = Number.parseInt(value, 10);
            if (Number.isInteger(tokens) && tokens !== skipTokens.shown) void set(skipTokens, tokens, { prefillSkipTokens: tokens });
          }}
        />
        {operation.error !== undefined && <Message tone="error">{operation.error.message}</Message>}
      </div>
    </>
  );
}
