import { useMantineColorScheme } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { spotlight } from '@mantine/spotlight';
import { useMemo } from 'react';
import { errorMessage } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import { OPERATION_INFO, type InstanceAnswer, type OperationInput, type OperationName, type OperationOutputs } from '#shared/operations.ts';
import { CONNECTORS, POLICIES } from '#shared/vocabulary.ts';
import { VIEWS, VIEW_TITLES } from '#shared/views.ts';
import { useEngineSelector } from '../stores/engine-context.tsx';
import { useTransport } from '../transport/transport-context.tsx';
import type { Transport } from '../transport/transport.ts';
import { useUrlState } from '../url/use-url-state.ts';
import { useCommands, type Command } from './commands.ts';

const TRAFFIC_STEPS = [0, 2, 10, 50] as const;

/** Registers what works in every view: navigation, themes, and the operations that need no form. Renders nothing. */
export function ShellCommands({ onShowShortcuts }: { readonly onShowShortcuts: () => void }): undefined {
  const transport = useTransport();
  const [, setUrl] = useUrlState();
  const { setColorScheme } = useMantineColorScheme();
  const instances = useEngineSelector((engine) => engine?.instances.map((instance) => `${instance.id} ${instance.name}`).join('\n') ?? '');
  const isSimulated = useEngineSelector((engine) => engine?.simulation !== undefined);
  const proxyUrl = useEngineSelector((engine) => engine?.proxyUrl);

  const navigation = useMemo<readonly Command[]>(
    () => [
      ...VIEWS.map((view, index) => ({
        id: `view.${view}`, title: VIEW_TITLES[view], group: 'Go to', hotkey: String(index + 1), run: () => setUrl({ view }),
      })),
      { id: 'palette', title: 'Command palette', group: 'General', hotkey: 'mod+K', isGlobal: true, isKeyOnly: true, run: () => spotlight.toggle() },
      { id: 'shortcuts', title: 'Keyboard shortcuts', group: 'General', hotkey: '?', run: onShowShortcuts },
      { id: 'theme.auto', title: 'Theme: system', group: 'General', run: () => setColorScheme('auto') },
      { id: 'theme.light', title: 'Theme: light', group: 'General', run: () => setColorScheme('light') },
      { id: 'theme.dark', title: 'Theme: dark', group: 'General', run: () => setColorScheme('dark') },
    ],
    [setUrl, setColorScheme, onShowShortcuts],
  );

  const engineCommands = useMemo<readonly Command[]>(
    () => [
      ...(proxyUrl === undefined
        ? []
        : [{ id: 'copy.base-url', title: 'Copy base URL', description: proxyUrl, group: 'General', run: () => void navigator.clipboard.writeText(proxyUrl) }]),
      ...POLICIES.map((policy) => fromOperation(transport, 'policy.set', { policy }, policy)),
      ...CONNECTORS.map((connector) => fromOperation(transport, 'connector.set', { connector }, connector)),
      fromOperation(transport, 'capture.set', { isOn: true }, 'on'),
      fromOperation(transport, 'capture.set', { isOn: false }, 'off'),
      fromOperation(transport, 'explain.set', { isOn: true }, 'on'),
      fromOperation(transport, 'explain.set', { isOn: false }, 'off'),
      ...(isSimulated ? TRAFFIC_STEPS.map((rate) => fromOperation(transport, 'sim.traffic', { requestsPerSecond: rate }, `${rate} requests/s`)) : []),
    ],
    [transport, isSimulated, proxyUrl],
  );

  const instanceCommands = useMemo<readonly Command[]>(
    () => [
      {
        id: 'instance.add', title: OPERATION_INFO['instance.add'].title, description: OPERATION_INFO['instance.add'].summary,
        group: 'Instances', run: () => setUrl({ view: 'instances', selection: 'new' }),
      },
      ...instances.split('\n').filter((line) => line !== '').map((line) => {
        const [id = '', name = id] = line.split(' ');
        return { id: `instance.${id}`, title: `Open ${name}`, group: 'Instances', run: () => setUrl({ view: 'instances', selection: id }) };
      }),
    ],
    [instances, setUrl],
  );

  const profileCommands = useMemo<readonly Command[]>(() => {
    const named = instances.split('\n').filter((line) => line !== '').map((line) => line.split(' '));
    if (named.length === 0) return [];
    return (['profile.start', 'profile.stop'] as const).flatMap((name) => [
      profileCommand(transport, name, undefined, 'all instances'),
      ...named.map(([id = '', instanceName = id]) => profileCommand(transport, name, id as InstanceId, instanceName)),
    ]);
  }, [transport, instances]);

  useCommands(navigation);
  useCommands(instanceCommands);
  useCommands(engineCommands);
  useCommands(profileCommands);
  return undefined;
}

function fromOperation<N extends OperationName>(transport: Transport, name: N, input: OperationInput<N>, choice: string): Command {
  const info = OPERATION_INFO[name];
  const title = `${info.title}: ${choice}`;
  return { id: `${name}.${choice}`, title, description: info.summary, group: 'Engine', run: () => void runAndTell(transport, name, input, title) };
}

function profileCommand(transport: Transport, name: 'profile.start' | 'profile.stop', id: InstanceId | undefined, choice: string): Command {
  const info = OPERATION_INFO[name];
  const title = `${info.title}: ${choice}`;
  const run = (): void => void runAndTell(transport, name, id === undefined ? {} : { ids: [id] }, title, ({ answers }) => answerWords(answers));
  return { id: `${name}.${id ?? 'all'}`, title, description: info.summary, group: 'Profiler', run };
}

/** `3 ok; P0 unsupported; D1 failed: connect ECONNREFUSED` */
export function answerWords(answers: readonly InstanceAnswer[]): string {
  const ok = answers.filter((answer) => answer.outcome === 'ok').length;
  const others = answers
    .filter((answer) => answer.outcome !== 'ok')
    .map((answer) => `${answer.name} ${answer.outcome}${answer.message === undefined ? '' : `: ${answer.message}`}`);
  return answers.length === 0 ? 'There is no instance to ask.' : [`${ok} of ${answers.length} ok`, ...others].join('; ');
}

async function runAndTell<N extends OperationName>(
  transport: Transport,
  name: N,
  input: OperationInput<N>,
  title: string,
  words: (value: OperationOutputs[N]) => string = () => 'Done.',
): Promise<void> {
  try {
    notifications.show({ title, message: words(await transport.call(name, input)) });
  } catch (error) {
    notifications.show({ title, message: errorMessage(error), color: 'red', autoClose: 10_000 });
  }
}
