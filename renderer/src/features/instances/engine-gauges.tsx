import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { Facts } from '../../ui/facts.tsx';
import { formatAgo, formatInteger, formatPercent, formatRate } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { Meter } from '../../ui/meter.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

/** What the engine says about itself on `/metrics`, and how old that is. What it does not expose is left out. */
export function EngineGaugesSection({ instance, nowUnixMs }: { readonly instance: InstanceView; readonly nowUnixMs: number }): ReactElement {
  const { engine, scrapeError } = instance;
  const sources = engine?.promptTokensBySource;
  return (
    <>
      <SectionHead title="Engine metrics">
        <span className={classes.note}>{engine !== undefined ? `scraped ${formatAgo(nowUnixMs - engine.scrapedAtUnixMs)}` : scrapeError === undefined ? 'not scraped yet' : 'the latest scrapes failed'}</span>
      </SectionHead>
      <div className={pane.block}>
        {scrapeError !== undefined && <Message tone="error">{scrapeError}</Message>}
        {engine === undefined && scrapeError === undefined && <Message tone="plain">Nothing from /metrics yet.</Message>}
        {engine !== undefined && (
          <Facts
            isPaired
            facts={[
              ['running', optional(engine.running, formatInteger)],
              ['waiting', optional(engine.waiting, formatInteger)],
              ['waiting, deferred', optional(engine.waitingDeferred, formatInteger)],
              ['KV cache used', engine.kvUsage === undefined ? undefined : <Meter key="kv" share={engine.kvUsage} label="KV cache used" />],
              ['blocks', engine.gpuBlocks === undefined ? undefined : `${formatInteger(engine.gpuBlocks)}${engine.blockSize === undefined ? '' : ` of ${engine.blockSize} tokens`}`],
              ['prefix hit rate', optional(engine.prefixHitRate, formatPercent, ' %')],
              ['external hit rate', optional(engine.externalHitRate, formatPercent, ' %')],
              ['prompt tokens/s', optional(engine.promptTokensPerSecond, formatRate)],
              ['generated tokens/s', optional(engine.generationTokensPerSecond, formatRate)],
              ['prompt tokens computed', optional(sources?.localCompute, formatInteger)],
              ['prompt tokens from own cache', optional(sources?.localCacheHit, formatInteger)],
              ['prompt tokens received', optional(sources?.externalKvTransfer, formatInteger)],
              ['preemptions', optional(engine.preemptions, formatInteger)],
              ['NIXL expired', optional(engine.nixlExpired, formatInteger)],
              ['NIXL failed transfers', optional(engine.nixlFailedTransfers, formatInteger)],
            ]}
          />
        )}
      </div>
    </>
  );
}

function optional(value: number | undefined, format: (value: number) => string, unit = ''): string | undefined {
  return value === undefined ? undefined : `${format(value)}${unit}`;
}
