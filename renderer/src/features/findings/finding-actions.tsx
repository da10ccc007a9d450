import { Button, Menu } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import type { ReactElement } from 'react';
import type { FindingGroup } from '../../findings/finding-groups.ts';
import { findingText } from '../../findings/finding-words.ts';
import { Message } from '../../ui/message.tsx';
import { ViewLink } from '../../ui/view-link.tsx';
import { useDismissal } from './use-dismissal.ts';
import classes from './findings.module.css';

/** What can be done with a diagnosis; dismissing is undone by the button that takes its place. */
export function FindingActions({ group, isBlocking }: { readonly group: FindingGroup; readonly isBlocking: boolean }): ReactElement {
  const { places, isDismissed, instanceName } = group;
  const { toggle, isRunning, error } = useDismissal();
  const clipboard = useClipboard({ timeout: 1500 });
  const all = places.length > 1 ? ` all ${places.length}` : '';
  return (
    <>
      <div className={classes.buttons}>
        <Button
          title={`${isDismissed ? 'List it among the open findings again' : 'Hide it until it gets worse, or is seen again after 8 hours; it can be brought back'} (d)`}
          loading={isRunning}
          onClick={() => void toggle(group)}
        >
          {isDismissed ? 'Bring back' : 'Dismiss'}{all}
        </Button>
        <Menu>
          <Menu.Target>
            <Button>{clipboard.copied ? 'Copied' : 'Copy as'}</Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => clipboard.copy(places.map((place) => findingText(place, isBlocking)).join('\n'))}>Text</Menu.Item>
            <Menu.Item onClick={() => clipboard.copy(JSON.stringify(places.length === 1 ? places[0] : places, undefined, 2))}>JSON</Menu.Item>
          </Menu.Dropdown>
        </Menu>
        {instanceName !== undefined && (
          <ViewLink to={{ view: 'requests', filter: `findings>0 instance:${instanceName}`, selection: '' }} title="Requests over this instance that have a verdict">
            requests with findings on {instanceName}
          </ViewLink>
        )}
      </div>
      {error !== undefined && <Message tone="error">{error.message}</Message>}
    </>
  );
}
