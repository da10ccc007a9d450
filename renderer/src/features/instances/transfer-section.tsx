import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { Facts } from '../../ui/facts.tsx';
import { formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

const DP_SOURCE: Readonly<Record<InstanceView['dpSizeSource'], string>> = {
  given: 'given when it was added',
  server_info: 'from /server_info',
  metrics: 'from /metrics',
  registration: 'from its registration',
  default: 'nobody said more',
};

/** Data-parallel size in words, with where it comes from. */
export function dpSizeWords({ dpSize, dpSizeSource }: Pick<InstanceView, 'dpSize' | 'dpSizeSource'>): string {
  return `${dpSize} (${DP_SOURCE[dpSizeSource]})`;
}

/** Units of settings of NixlConnector, which the engine gives as bare numbers. */
const UNITS: ReadonlyMap<string, string> = new Map([['kv_lease_duration', 's'], ['decoder_kv_blocks_ttl', 's'], ['kv_recompute_threshold', 'tokens']]);

/** A value of kv_connector_extra_config as the engine has it, with its unit where there is one. */
function extraWords(name: string, value: unknown): string {
  const unit = UNITS.get(name);
  if (typeof value === 'number' && unit !== undefined) return `${value} ${unit}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What the engine says about its KV transfer. It does so in development mode only; nothing is guessed. */
export function TransferSection({ instance }: { readonly instance: InstanceView }): ReactElement {
  const { transfer, bootstrapPort, kvBytesPerToken = transfer?.kvBytesPerToken } = instance;
  const extra = Object.entries(transfer?.extraConfig ?? {});
  return (
    <>
      <SectionHead title="KV transfer">
        <span className={classes.note}>{transfer === undefined ? 'the engine does not say' : 'as /server_info says'}</span>
      </SectionHead>
      <div className={pane.block}>
        {transfer === undefined && <Message tone="plain">Engines tell it at /server_info, which they have when started with VLLM_SERVER_DEV_MODE=1.</Message>}
        <Facts
          isPaired
          facts={[
            ['KV connector', transfer?.kvConnector],
            ['KV role', transfer?.kvRole],
            ['engine id', transfer?.engineId === undefined ? undefined : <code key="engine" className={classes.mono}>{transfer.engineId}</code>],
            ['tensor parallel', transfer?.tpSize],
            ['pipeline parallel', transfer?.ppSize],
            ['block size', transfer?.blockSize === undefined ? undefined : `${transfer.blockSize} tokens`],
            ['KV bytes per token', kvBytesPerToken === undefined ? undefined : `${formatInteger(kvBytesPerToken)} (${instance.kvBytesPerToken === undefined ? 'worked out from the model and cache configuration' : 'given when it was added'})`],
            ['load failure policy', transfer?.loadFailurePolicy],
            ['bootstrap port', bootstrapPort],
            ...extra.map(([name, value]) => [name, <code key={name} className={classes.mono}>{extraWords(name, value)}</code>] as const),
          ]}
        />
      </div>
    </>
  );
}
