import type { ReactElement, ReactNode } from 'react';
import { DEFAULT_URL_STATE, formatHash, type UrlState } from '../url/url-state.ts';
import { setUrlState } from '../url/use-url-state.ts';
import classes from './ui.module.css';

export interface ViewLinkProps {
  /** What the link sets; a click here leaves the rest of the target view as it last was. */
  readonly to: Partial<UrlState> & Pick<UrlState, 'view'>;
  readonly children: ReactNode;
  readonly title?: string | undefined;
}

/** A link into another view: a real one, so that it can be copied and opened beside this one. */
export function ViewLink({ to, children, title }: ViewLinkProps): ReactElement {
  return (
    <a
      className={classes.link}
      href={formatHash({ ...DEFAULT_URL_STATE, ...to })}
      title={title}
      onClick={(event) => {
        event.stopPropagation();
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        setUrlState(to);
      }}
    >
      {children}
    </a>
  );
}
