import { ActionIcon, Button, Menu } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import type { ReactElement, Ref } from 'react';
import type { Finding, FindingEvidence } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import { blockedWords, effectWords, findingText, seenWords } from '../../findings/finding-words.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useOperation } from '../../transport/use-operation.ts';
import { Facts } from '../../ui/facts.tsx';
import { ABSENT, formatAgo, formatClock, formatDateTime, formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import classes from './findings.module.css';

export interface FindingDetailProps {
  readonly finding: Finding;
  /** The engine's clock. */
  readonly nowUnixMs: number;
  readonly onClose: () => void;
  readonly ref?: Ref<HTMLElement>;
}

/** One finding: what to do first, then what it does, then the cases it was concluded from. */
export function FindingDetail({ finding, nowUnixMs, onClose, ref }: FindingDetailProps): ReactElement {
  const isBlocking = useEngineSelector((engine) => engine?.protocol.blockFatal === true);
  const effect = effectWords(finding);
  const blocked = blockedWords(finding, isBlocking);
  return (
    <section ref={ref} className={classes.scroll} aria-label="Finding" tabIndex={-1}>
      <div className={classes.detailHead}>
        <SeverityMark severity={finding.severity} />
        <h2 className={classes.detailTitle}>{finding.title}</h2>
        <ActionIcon className={classes.close ?? ''} aria-label="Close the detail" title="Close (Esc)" onClick={onClose}>
          ✕
        </ActionIcon>
      </div>
      <SectionHead title="Next step" />
      <div className={classes.block}>
        <p className={classes.nextStep}>{finding.nextStep}</p>
        <Actions finding={finding} isBlocking={isBlocking} />
      </div>
      <SectionHead title="What it is" />
      <div className={classes.block}>
        <Facts
          facts={[
            ['effect', effect],
            ['held back', blocked],
            ['seen', `${seenWords(finding.count)}, last ${formatAgo(nowUnixMs - finding.lastAtUnixMs)}, first ${formatDateTime(finding.firstAtUnixMs)}`],
            ['instance', finding.instance !== undefined && <InstanceLink key="instance" id={finding.instance} name={finding.instanceName ?? finding.instance} />],
            ['connector', finding.connector],
            ['code', <code key="code" className={classes.mono}>{finding.code}</code>],
            ['dismissed', finding.isDismissed && 'yes; it opens again when it is seen again'],
          ]}
        />
      </div>
      <SectionHead title="Evidence">
        <span className={classes.dim}>
          {finding.evidence.length < finding.count ? `the latest ${formatInteger(finding.evidence.length)} of ${formatInteger(finding.count)} cases, newest first` : 'newest first'}
        </span>
      </SectionHead>
      <EvidenceTable evidence={finding.evidence} />
    </section>
  );
}

function Actions({ finding, isBlocking }: { readonly finding: Finding; readonly isBlocking: boolean }): ReactElement {
  const dismiss = useOperation('findings.dismiss');
  const clipboard = useClipboard({ timeout: 1500 });
  return (
    <>
      <div className={classes.buttons}>
        {!finding.isDismissed && (
          <Button title="Hide it until it is seen again" loading={dismiss.isRunning} onClick={() => void dismiss.run({ id: finding.id })}>
            Dismiss
          </Button>
        )}
        <Menu>
          <Menu.Target>
            <Button>{clipboard.copied ? 'Copied' : 'Copy as'}</Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => clipboard.copy(findingText(finding, isBlocking))}>Text</Menu.Item>
            <Menu.Item onClick={() => clipboard.copy(JSON.stringify(finding, undefined, 2))}>JSON</Menu.Item>
          </Menu.Dropdown>
        </Menu>
        {finding.instanceName !== undefined && (
          <ViewLink to={{ view: 'requests', filter: `findings>0 instance:${finding.instanceName}`, selection: '' }} title="Requests over this instance that have a verdict">
            requests with findings on {finding.instanceName}
          </ViewLink>
        )}
      </div>
      {dismiss.error !== undefined && <Message tone="error">{dismiss.error.message}</Message>}
    </>
  );
}

function InstanceLink({ id, name }: { readonly id: InstanceId; readonly name: string }): ReactElement | string {
  const isInFleet = useEngineSelector((engine) => engine?.instances.some((instance) => instance.id === id) === true);
  return isInFleet ? <ViewLink to={{ view: 'instances', selection: id }}>{name}</ViewLink> : `${name} (no longer in the fleet)`;
}

function EvidenceTable({ evidence }: { readonly evidence: readonly FindingEvidence[] }): ReactElement {
  return (
    <div className={classes.evidence} role="region" aria-label="Evidence" tabIndex={0}>
      <table className={classes.evidenceTable}>
        <thead>
          <tr>
            <th scope="col">time</th>
            <th scope="col">hop</th>
            <th scope="col">what was seen</th>
            <th scope="col">request</th>
          </tr>
        </thead>
        <tbody>
          {evidence.map((one, index) => (
            // Cases have no name of their own; the list is short and renewed whole.
            // oxlint-disable-next-line react/no-array-index-key
            <tr key={`${one.atUnixMs} ${index}`}>
              <td className={classes.mono} title={formatDateTime(one.atUnixMs)}>{formatClock(one.atUnixMs)}</td>
              <td className={classes.hop}>{one.hop ?? <span className={classes.dim}>{ABSENT}</span>}</td>
              <td className={classes.message}>{one.message}</td>
              <td className={classes.mono}>
                {one.request === undefined ? (
                  <span className={classes.dim}>{ABSENT}</span>
                ) : (
                  <ViewLink to={{ view: 'requests', selection: one.request.id, tab: '' }} title={`Open ${one.request.requestId}`}>
                    {`#${one.request.n}`}
                  </ViewLink>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
