import { Button, Menu } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useRef, useState, type ReactElement } from 'react';
import { errorMessage } from '#shared/errors.ts';
import type { RequestRow } from '#shared/request.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useTransport } from '../../transport/transport-context.tsx';
import { formatInteger } from '../../ui/format.ts';
import { collectDetails, exportText, MOST_EXPORTED, type ExportFormat } from './export/collect.ts';
import { downloadText, exportFileName } from './export/download.ts';

const CHOICES: readonly { readonly format: ExportFormat; readonly withBodies: boolean; readonly label: string }[] = [
  { format: 'jsonl', withBodies: false, label: 'JSONL, without bodies' },
  { format: 'har', withBodies: false, label: 'HAR, without bodies' },
  { format: 'jsonl', withBodies: true, label: 'JSONL, with captured bodies' },
  { format: 'har', withBodies: true, label: 'HAR, with captured bodies' },
];

/** Exports the listed requests. API keys and cookies are always stripped; prompts and completions unless asked for. */
export function ExportMenu({ rows }: { readonly rows: readonly RequestRow[] }): ReactElement {
  const transport = useTransport();
  const engine = useEngineSelector((state) => ({ version: state?.version ?? '', proxyUrl: state?.proxyUrl }));
  const [progress, setProgress] = useState<string | undefined>();
  const abort = useRef<AbortController>(undefined);

  const run = async (format: ExportFormat, withBodies: boolean): Promise<void> => {
    const controller = new AbortController();
    abort.current = controller;
    try {
      const { details, missing } = await collectDetails(rows, {
        get: (id) => transport.call('requests.get', { id }),
        onProgress: (done, of) => setProgress(`${formatInteger(done)} of ${formatInteger(of)}`),
        signal: controller.signal,
      });
      if (controller.signal.aborted) return;
      const text = exportText(format, details, { withBodies, ...engine });
      downloadText(exportFileName('requests', format), format === 'har' ? 'application/json' : 'application/x-ndjson', text);
      const left = missing === 0 ? '' : ` ${formatInteger(missing)} were left out: evicted meanwhile, or beyond the newest ${formatInteger(MOST_EXPORTED)}.`;
      notifications.show({ title: 'Exported', message: `${formatInteger(details.length)} requests.${left}` });
    } catch (cause) {
      notifications.show({ title: 'Export failed', message: errorMessage(cause), color: 'red', autoClose: 10_000 });
    } finally {
      setProgress(undefined);
    }
  };

  if (progress !== undefined) return <Button onClick={() => abort.current?.abort()} title="Stop the export">{progress} ✕</Button>;
  return (
    <Menu>
      <Menu.Target>
        <Button disabled={rows.length === 0}>export</Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>The listed requests, newest {formatInteger(MOST_EXPORTED)} at most; keys stripped</Menu.Label>
        {CHOICES.map(({ format, withBodies, label }) => (
          <Menu.Item key={label} onClick={() => void run(format, withBodies)}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
