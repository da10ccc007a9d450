import { useClipboard } from '@mantine/hooks';
import { Button } from '@mantine/core';
import type { ReactElement } from 'react';
import classes from './ui.module.css';

/** Text that copies itself when clicked; says so for a second. */
export function CopyText({ text, label }: { readonly text: string; readonly label: string }): ReactElement {
  const clipboard = useClipboard({ timeout: 1200 });
  return (
    <button type="button" className={classes.copy} title={`Copy ${label}`} onClick={() => clipboard.copy(text)}>
      {clipboard.copied ? 'copied' : text}
    </button>
  );
}

/** A block of code with a copy button. */
export function CodeBlock({ code, label }: { readonly code: string; readonly label: string }): ReactElement {
  const clipboard = useClipboard({ timeout: 1200 });
  return (
    <div className={classes.codeRow}>
      <pre className={classes.code} aria-label={label}>
        {code}
      </pre>
      <Button onClick={() => clipboard.copy(code)} aria-label={`Copy ${label}`}>
        {clipboard.copied ? 'copied' : 'copy'}
      </Button>
    </div>
  );
}
