import { Button, Popover } from '@mantine/core';
import { memo, useState, type ReactElement } from 'react';
import type { OperationName } from '#shared/operations.ts';
import { OPERATION_INFO } from '#shared/operations.ts';
import { useOperation } from '../transport/use-operation.ts';
import { InlineConfirm } from '../ui/inline-confirm.tsx';
import { Message } from '../ui/message.tsx';

export interface ClearButtonProps {
  readonly operation: Extract<OperationName, 'requests.clear' | 'kv.clear' | 'findings.clear'>;
}

/** Forgets the engine's history of a list; asks once. */
export const ClearButton = memo(function ClearButton({ operation }: ClearButtonProps): ReactElement {
  const clear = useOperation(operation);
  const [isAsking, setAsking] = useState(false);
  const { title, summary } = OPERATION_INFO[operation];
  const confirm = async (): Promise<void> => {
    const result = await clear.run({});
    if (result !== undefined) setAsking(false);
  };
  return (
    <Popover opened={isAsking} onChange={setAsking} position="bottom-end" width={380}>
      <Popover.Target>
        <Button onClick={() => setAsking(true)} title={summary}>
          clear
        </Button>
      </Popover.Target>
      <Popover.Dropdown p={0}>
        <InlineConfirm confirmLabel={title} onConfirm={() => void confirm()} onCancel={() => setAsking(false)} isRunning={clear.isRunning}>
          {summary} For every page that is open on this engine; it cannot be undone.
        </InlineConfirm>
        {clear.error !== undefined && <Message tone="error">{clear.error.message}</Message>}
      </Popover.Dropdown>
    </Popover>
  );
});
