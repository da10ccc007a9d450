import type { ReactElement } from 'react';
import type { Role } from '#shared/vocabulary.ts';
import { ROLE_COLOR } from '../theme/palette.ts';
import classes from './ui.module.css';

/** The small square in the role's hue. Decorative: the name beside it (P0, D1) says the role too. */
export function RoleMark({ role }: { readonly role: Role }): ReactElement {
  return <span className={classes.roleMark} style={{ background: ROLE_COLOR[role] }} title={role} aria-hidden="true" />;
}

/** Square and name of an instance. */
export function InstanceName({ role, name }: { readonly role: Role; readonly name: string }): ReactElement {
  return (
    <span className={classes.instanceName}>
      <RoleMark role={role} />
      {name}
    </span>
  );
}
