import type { ReactElement, Ref } from 'react';
import type { InstanceId } from '#shared/ids.ts';
import { connectorWords, evidenceOf, nextStepsOf, type FindingGroup } from '../../findings/finding-groups.ts';
import { blockedWords, closedWords, effectWords, seenWords } from '../../findings/finding-words.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { DetailBlock, DetailHead } from '../../ui/detail-pane.tsx';
import { Facts } from '../../ui/facts.tsx';
import { formatAgo, formatDateTime, formatInteger } from '../../ui/format.ts';
import records from '../../ui/record-table.module.css';
import { SectionHead } from '../../ui/section-head.tsx';
import { SeverityMark } from '../../ui/severity-mark.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import { EvidenceTable } from './evidence-table.tsx';
import { FindingActions } from './finding-actions.tsx';
import { PlaceTable } from './place-table.tsx';
import classes from './findings.module.css';

export interface FindingDetailProps {
  /** One finding, or all places of a diagnosis. */
  readonly group: FindingGroup;
  /** The engine's clock. */
  readonly nowUnixMs: number;
  readonly onSelect: (id: string) => void;
  readonly onClose: () => void;
  readonly ref?: Ref<HTMLElement>;
}

/** One diagnosis: what to do first, then what it does and where, then the cases it was concluded from. */
export function FindingDetail({ group, nowUnixMs, onSelect, onClose, ref }: FindingDetailProps): ReactElement {
  const isBlocking = useEngineSelector((engine) => engine?.protocol.blockFatal === true);
  const { places, isDismissed } = group;
  const [only] = places;
  const isOver = places.every(({ overAtUnixMs }) => overAtUnixMs !== undefined);
  const dismissedUntilUnixMs = Math.min(...places.map(({ dismissal }) => dismissal?.untilUnixMs ?? Infinity));
  const evidence = evidenceOf(group);
  return (
    <section ref={ref} className={records.scroll} aria-label="Finding" tabIndex={-1}>
      <DetailHead before={<SeverityMark severity={group.severity} />} title={group.title} onClose={onClose} />
      <SectionHead title="Next step" />
      <DetailBlock>
        {nextStepsOf(group).map((step) => <p key={step} className={classes.nextStep}>{step}</p>)}
        <FindingActions group={group} isBlocking={isBlocking} />
      </DetailBlock>
      <SectionHead title="What it is" />
      <DetailBlock>
        <Facts
          facts={[
            ['effect', effectWords(group)],
            ['held back', blockedWords(group, isBlocking)],
            ['seen', `${seenWords(group.count)}, last ${formatAgo(nowUnixMs - group.lastAtUnixMs)}, first ${formatDateTime(group.firstAtUnixMs)}`],
            ['instance', places.length === 1 && only?.instance !== undefined && <InstanceLink key="instance" id={only.instance} name={only.instanceName ?? only.instance} />],
            ['connector', connectorWords(places) || undefined],
            ['code', <code key="code" className={classes.mono}>{group.code}</code>],
            ['over', isOver && `yes: what it is about was looked at again and is gone${Number.isFinite(dismissedUntilUnixMs) ? '' : '; it opens when it is seen again'}`],
            ['dismissed', isDismissed && Number.isFinite(dismissedUntilUnixMs) && `${closedWords(places)?.replace('dismissed', 'yes')}; it opens again when it gets worse, when it is seen after ${formatDateTime(dismissedUntilUnixMs)}, or when you bring it back`],
          ]}
        />
      </DetailBlock>
      {places.length > 1 && (
        <>
          <SectionHead title={`Places · ${formatInteger(places.length)}`} />
          <PlaceTable places={places} nowUnixMs={nowUnixMs} onSelect={onSelect} />
        </>
      )}
      <SectionHead title="Evidence">
        <span className={classes.dim}>
          {evidence.length < group.count ? `the latest ${formatInteger(evidence.length)} of ${formatInteger(group.count)} cases, newest first` : 'newest first'}
        </span>
      </SectionHead>
      <EvidenceTable evidence={evidence} hasPlaces={places.length > 1} />
    </section>
  );
}

function InstanceLink({ id, name }: { readonly id: InstanceId; readonly name: string }): ReactElement | string {
  const isInFleet = useEngineSelector((engine) => engine?.instances.some((instance) => instance.id === id) === true);
  return isInFleet ? <ViewLink to={{ view: 'instances', selection: id }}>{name}</ViewLink> : `${name} (no longer in the fleet)`;
}
