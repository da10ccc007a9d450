/**
 * Drain, disable, enable, remove: with the engine's words when it refuses, and a way back wherever there is one
 * (a drain or disable is undone by enabling; a removed instance can be added again as it was).
 */
import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMemo, type ReactElement } from 'react';
import { errorMessage } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceSpec, InstanceView } from '#shared/instance.ts';
import { useTransport } from '../transport/transport-context.tsx';
import type { Transport } from '../transport/transport.ts';
import { formatCount } from '../ui/format.ts';

export interface InstanceActions {
  readonly drain: (instance: InstanceView) => Promise<void>;
  readonly disable: (instance: InstanceView) => Promise<void>;
  readonly enable: (instance: InstanceView) => Promise<void>;
  /** `force` cancels what is in flight. */
  readonly remove: (instance: InstanceView, force: boolean) => Promise<void>;
}

/** What to give the engine to get this instance back. */
export function specOf(instance: InstanceView): InstanceSpec {
  return {
    role: instance.role,
    url: instance.url,
    name: instance.name,
    ...(instance.kvEvents !== undefined && { kvEvents: instance.kvEvents }),
    // What was found out is found out again.
    ...(instance.dpSizeSource === 'given' && { dpSize: instance.dpSize }),
    ...(instance.bootstrapPort !== undefined && { bootstrapPort: instance.bootstrapPort }),
  };
}

export function useInstanceActions(): InstanceActions {
  const transport = useTransport();
  return useMemo(() => createInstanceActions(transport), [transport]);
}

function createInstanceActions(transport: Transport): InstanceActions {
  const enable = async ({ id, name }: { readonly id: InstanceId; readonly name: string }): Promise<void> =>
    attempt(`Enable ${name}`, async () => {
      await transport.call('instance.enable', { id });
      tell(`${name} takes new requests again`);
    });
  return {
    enable,
    drain: async (instance) =>
      attempt(`Drain ${instance.name}`, async () => {
        await transport.call('instance.drain', { id: instance.id, thenRemove: true });
        tell(
          instance.inFlight === 0
            ? `${instance.name} takes no new requests and leaves now`
            : `${instance.name} takes no new requests and leaves when ${formatCount(instance.inFlight, 'request')} in flight are done`,
          { label: 'Stop draining', run: () => enable(instance) },
        );
      }),
    disable: async (instance) =>
      attempt(`Disable ${instance.name}`, async () => {
        await transport.call('instance.disable', { id: instance.id });
        tell(`${instance.name} stays, but takes no new requests`, { label: 'Enable again', run: () => enable(instance) });
      }),
    remove: async (instance, force) =>
      attempt(`Remove ${instance.name}`, async () => {
        const { cancelled } = await transport.call('instance.remove', { id: instance.id, force });
        tell(`${instance.name} removed${cancelled > 0 ? `, ${formatCount(cancelled, 'request')} cancelled` : ''}`, {
          label: 'Add it again',
          run: () => attempt(`Add ${instance.name}`, async () => void (await transport.call('instance.add', { ...specOf(instance), force: true }))),
        });
      }),
  };
}

async function attempt(title: string, action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    notifications.show({ title, message: errorMessage(error), color: 'red', autoClose: 12_000 });
  }
}

interface WayBack {
  readonly label: string;
  readonly run: () => Promise<void>;
}

function tell(message: string, undo?: WayBack): void {
  const id = `instance-${Date.now()}`;
  notifications.show({
    id,
    autoClose: undo === undefined ? 4000 : 10_000,
    message: undo === undefined ? message : <UndoMessage message={message} undo={undo} onDone={() => notifications.hide(id)} />,
  });
}

function UndoMessage({ message, undo, onDone }: { readonly message: string; readonly undo: WayBack; readonly onDone: () => void }): ReactElement {
  return (
    <>
      {message}{' '}
      <Button
        onClick={() => {
          onDone();
          void undo.run();
        }}
      >
        {undo.label}
      </Button>
    </>
  );
}
