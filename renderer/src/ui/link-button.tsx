import type { ButtonHTMLAttributes, ReactElement } from 'react';
import classes from './ui.module.css';

/** What looks like a link and stays in the view: it opens something beside it. For another view there is `ViewLink`. */
export function LinkButton(props: Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'className' | 'type'>): ReactElement {
  return <button type="button" className={classes.linkButton} {...props} />;
}
