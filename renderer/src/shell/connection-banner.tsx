import { Button } from '@mantine/core';
import { useEffect, useState, type ReactElement } from 'react';
import { useTransport, useConnection } from '../transport/transport-context.tsx';
import classes from './shell.module.css';

/** One line above the view while there is no session; what is shown below it is marked as old by its words. */
export function ConnectionBanner(): ReactElement | undefined {
  const connection = useConnection();
  const transport = useTransport();
  if (connection.phase === 'open' || (connection.phase === 'connecting' && connection.attempt === 1)) return undefined;
  return (
    <div className={classes.banner} role="alert">
      <span>
        ✕ Not connected to the engine{connection.phase === 'connecting' ? '' : `: ${connection.reason}`}. What is shown is the last
        that was known.{' '}
        {connection.phase === 'waiting' && <RetryCountdown retryAtUnixMs={connection.retryAtUnixMs} />}
        {connection.phase === 'connecting' && `Trying again (attempt ${connection.attempt}) …`}
      </span>
      {connection.phase === 'waiting' && <Button onClick={() => transport.retryNow()}>Try now</Button>}
      {connection.phase === 'refused' && <Button onClick={() => globalThis.location.reload()}>Reload</Button>}
    </div>
  );
}

function RetryCountdown({ retryAtUnixMs }: { readonly retryAtUnixMs: number }): ReactElement {
  const [nowUnixMs, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, []);
  return <>Next try in {Math.max(0, Math.ceil((retryAtUnixMs - nowUnixMs) / 1000))} s.</>;
}
