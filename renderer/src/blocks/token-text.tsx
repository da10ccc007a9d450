import type { ReactElement } from 'react';
import { tokenWords } from './token-words.ts';
import classes from './blocks.module.css';

export interface TokenTextProps {
  readonly of: { readonly tokens: readonly number[]; readonly text?: string };
  /** Characters of text at most. Default 96. */
  readonly most?: number;
}

/** A run of tokens in one line: text when decoded, else ids in the face of ids. */
export function TokenText({ of, most = 96 }: TokenTextProps): ReactElement {
  const { isText, words } = tokenWords(of, most);
  return <span className={isText ? classes.text : classes.ids} title={isText ? undefined : 'Token ids: no instance decoded them'}>{words}</span>;
}
