import type { ReactElement } from 'react';
import type { LegKind, Role } from '#shared/vocabulary.ts';
import { LEG_COLOR } from '../theme/palette.ts';
import { rankedName } from './ranked-name.ts';
import classes from './ui.module.css';

/** The small square in the hue of a role or leg. Decorative: the name beside it (P0, D1) says the role too. */
export function RoleMark({ role }: { readonly role: Role | LegKind }): ReactElement {
  return <span className={classes.roleMark} style={{ background: LEG_COLOR[role] }} title={role} aria-hidden="true" />;
}

/** Square and name of an instance; with the data-parallel rank that was addressed, `P0/1`. */
export function InstanceName({ role, name, rank }: { readonly role: Role | LegKind; readonly name: string; readonly rank?: number | undefined }): ReactElement {
  return (
    <span className={classes.instanceName}>
      <RoleMark role={role} />
      {rankedName(name, rank)}
    </span>
  );
}
