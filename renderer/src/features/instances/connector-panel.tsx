import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import type { EngineState } from '#shared/state.ts';
import { CONNECTORS, type ConnectorName } from '#shared/vocabulary.ts';
import { CONNECTOR_GUIDE, ENCODE_STAGE_FLAGS, type ConnectorGuide } from '../../fleet/connector-guide.ts';
import { CodeBlock } from '../../ui/copy-text.tsx';
import { DetailHead } from '../../ui/detail-pane.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Fold } from '../../ui/fold.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { ConnectorStatusSection } from './connector-status.tsx';
import pane from '../../ui/detail-pane.module.css';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';
import { ProfileSection } from './profile-section.tsx';
import { ProtocolSettingsSection } from './protocol-settings.tsx';

export interface ConnectorPanelProps {
  readonly engine: EngineState;
  readonly isSwitching: boolean;
  readonly onSwitch: (connector: ConnectorName) => void;
}

/** The fleet's P/D protocol: what it does, what engines need for it, its settings, what it keeps just now. */
export function ConnectorPanel({ engine, isSwitching, onSwitch }: ConnectorPanelProps): ReactElement {
  const { connector } = engine;
  const guide = CONNECTOR_GUIDE[connector];
  return (
    <section className={records.scroll} aria-label="Connector in force">
      <DetailHead title={`Connector ${connector}`}>
        <span className={classes.note}>{guide.order}</span>
      </DetailHead>
      <div className={pane.block}>
        <p className={classes.lead}>{guide.does}</p>
        <p className={classes.plainText}>{guide.mind}</p>
        <Fold name="flags" className={classes.fold} summary={`Engine flags for ${connector}`}>
          <Flags guide={guide} />
        </Fold>
      </div>
      <ConnectorStatusSection connector={connector} nowUnixMs={engine.nowUnixMs} />
      <ProtocolSettingsSection settings={engine.protocol} connector={connector} />
      <SectionHead title="All connectors">
        <span className={classes.note}>a switch concerns new requests; those in flight end as they began</span>
      </SectionHead>
      <div className={pane.block}>
        {CONNECTORS.map((name) => (
          <Mode key={name} name={name} isCurrent={name === connector} isSwitching={isSwitching} onSwitch={onSwitch} />
        ))}
        <Fold
          name="encode-stage"
          className={classes.mode}
          summary={<><strong className={classes.modeName}>encode stage</strong> <span className={classes.note}>before any of them: encode instances for images, audio and video</span></>}
        >
          <div className={classes.modeBody}>
            <FlagList flags={ENCODE_STAGE_FLAGS} />
          </div>
        </Fold>
      </div>
      <ProfileSection />
    </section>
  );
}

interface ModeProps {
  readonly name: ConnectorName;
  readonly isCurrent: boolean;
  readonly isSwitching: boolean;
  readonly onSwitch: (connector: ConnectorName) => void;
}

function Mode({ name, isCurrent, isSwitching, onSwitch }: ModeProps): ReactElement {
  const guide = CONNECTOR_GUIDE[name];
  return (
    <Fold
      name={name}
      className={classes.mode}
      isCurrent={isCurrent}
      summary={
        <>
          <strong className={classes.modeName}>{name}</strong>{' '}
          <span className={classes.note} title={guide.does}>
            {isCurrent && <b className={classes.inUse}>● in use </b>}
            {guide.does}
          </span>
        </>
      }
    >
      <div className={classes.modeBody}>
        <Facts
          facts={[
            ['legs', guide.order],
            ['mind', guide.mind],
          ]}
        />
        <Flags guide={guide} />
        <div>
          <Button disabled={isCurrent || isSwitching} onClick={() => onSwitch(name)} aria-label={`Use ${name}`}>
            {isCurrent ? 'in use' : `Use ${name}`}
          </Button>
        </div>
      </div>
    </Fold>
  );
}

function Flags({ guide }: { readonly guide: ConnectorGuide }): ReactElement {
  return guide.flags.length === 0 ? <p className={classes.note}>Engines need no flags for it.</p> : <FlagList flags={guide.flags} />;
}

function FlagList({ flags }: Pick<ConnectorGuide, 'flags'>): ReactElement {
  return (
    <>
      {flags.map((one) => (
        <div key={one.on} className={classes.flag}>
          <span className={classes.note}>{one.on}</span>
          <CodeBlock code={one.flags} label={`flags of ${one.on}`} />
        </div>
      ))}
    </>
  );
}
