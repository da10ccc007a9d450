import type { ReactElement } from 'react';
import type { ProbeResult } from '#shared/operations.ts';
import { Facts } from '../../ui/facts.tsx';
import { formatDuration, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { StateMark } from '../../ui/state-mark.tsx';

/** What answered at an address, in words. */
export function ProbeReport({ result, fleetModels }: { readonly result: ProbeResult; readonly fleetModels: readonly string[] }): ReactElement {
  const isOtherModel = result.models.length > 0 && fleetModels.length > 0 && !result.models.some((model) => fleetModels.includes(model));
  return (
    <>
      {result.problem === undefined ? <Message tone="plain">● It can join.</Message> : <Message tone="error">{result.problem}</Message>}
      <Facts
        facts={[
          ['address', result.url],
          ['reachable', <StateMark key="reachable" tone={result.isReachable ? 'ok' : 'error'}>{result.isReachable ? 'yes' : 'no'}</StateMark>],
          ['healthy', result.isReachable ? <StateMark key="healthy" tone={result.isHealthy ? 'ok' : 'error'}>{result.isHealthy ? 'yes' : 'no'}</StateMark> : undefined],
          ['models', result.models.length === 0 ? undefined : `${result.models.join(', ')}${isOtherModel ? ` (the fleet serves ${fleetModels.join(', ')})` : ''}`],
          ['longest context', result.maxModelLen === undefined ? undefined : `${formatInteger(result.maxModelLen)} tokens`],
          ['version', result.version],
          ['round trip', result.roundTripMs === undefined ? undefined : formatDuration(result.roundTripMs)],
        ]}
      />
    </>
  );
}
