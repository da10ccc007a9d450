import { Button, Menu } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import type { ReactElement } from 'react';
import type { RequestDetail } from '#shared/request.ts';
import { useEngineSelector } from '../../../stores/engine-context.tsx';
import { toCurl, toPython } from '../export/commands.ts';
import { sanitizeDetail } from '../export/sanitize.ts';

/** Copies the request as something to run or to read. Secrets stay here. */
export function CopyRequest({ detail }: { readonly detail: RequestDetail }): ReactElement {
  const clipboard = useClipboard({ timeout: 1500 });
  const proxyUrl = useEngineSelector((engine) => engine?.proxyUrl);
  const hasBody = detail.clientBody !== undefined && !detail.clientBody.isCut;
  return (
    <Menu>
      <Menu.Target>
        <Button title={hasBody ? undefined : 'The body was not captured whole: the copy says where it goes'}>{clipboard.copied ? 'Copied' : 'Copy as'}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {!hasBody && <Menu.Label>Body {detail.clientBody === undefined ? 'not captured' : 'cut'}: the copy reads request.json</Menu.Label>}
        <Menu.Item onClick={() => clipboard.copy(toCurl(detail, proxyUrl))}>cURL</Menu.Item>
        <Menu.Item onClick={() => clipboard.copy(toPython(detail, proxyUrl))}>Python</Menu.Item>
        <Menu.Item onClick={() => clipboard.copy(JSON.stringify(sanitizeDetail(detail, { withBodies: false }), undefined, 2))}>JSON, without bodies</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
