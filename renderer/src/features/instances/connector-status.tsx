import type { ReactElement } from 'react';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { Facts } from '../../ui/facts.tsx';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';
import { Cell, StatusTableView } from './status-table.tsx';

const EVERY_MS = 1000;

/** What the connector in force says about itself, asked once a second while it is on screen. */
export function ConnectorStatusSection({ connector, nowUnixMs }: { readonly connector: ConnectorName; readonly nowUnixMs: number }): ReactElement {
  const { value, error } = usePolledQuery('connector.status', {}, EVERY_MS);
  // Just after a switch the newest answer is still that of the connector before.
  const status = value?.connector === connector ? value : undefined;
  return (
    <>
      <SectionHead title="State" />
      <div className={pane.block} data-testid="connector-status">
        {error !== undefined && <Message tone={status === undefined ? 'error' : 'warning'}>{status === undefined ? error.message : `Shown as last seen: ${error.message}`}</Message>}
        {status === undefined && error === undefined && <p className={classes.plainText}>Asking {connector} what it keeps …</p>}
        {status !== undefined && (
          <>
            <p className={classes.plainText}>{status.summary}</p>
            {status.notices.length > 0 && (
              <ul className={classes.notices}>
                {status.notices.map((notice) => (
                  <li key={notice.message} className={classes.notice}>
                    <SeverityMark severity={notice.severity} />
                    <span>{notice.message}</span>
                  </li>
                ))}
              </ul>
            )}
            {status.facts.length > 0 && <Facts facts={status.facts.map((fact) => [fact.title, <Cell key={fact.title} cell={fact.value} nowUnixMs={nowUnixMs} />])} />}
            {status.tables.map((table) => (
              <StatusTableView key={table.id} table={table} nowUnixMs={nowUnixMs} />
            ))}
          </>
        )}
      </div>
    </>
  );
}
