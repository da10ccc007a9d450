import type { ReactElement } from 'react';
import type { NodeHolder } from '#shared/cache.ts';
import { RoleMark } from '../ui/role-mark.tsx';
import { groupHolders } from './holders.ts';
import classes from './blocks.module.css';

export interface HolderListProps {
  readonly holders: readonly NodeHolder[];
  /** Instances named before the rest is counted. Default 6. */
  readonly most?: number;
}

/** Instances that hold a block, in the colours of their roles. */
export function HolderList({ holders, most = 6 }: HolderListProps): ReactElement {
  const groups = groupHolders(holders);
  if (groups.length === 0) return <span className={classes.dim}>nobody now</span>;
  const rest = groups.slice(most);
  return (
    <span className={classes.holders}>
      {groups.slice(0, most).map((group) => (
        <span key={group.instance} className={classes.holder} title={`${group.role} ${group.name}${group.streams > 1 ? `, ${group.streams} ranks` : ''}`}>
          <RoleMark role={group.role} />
          {group.name}
          {group.otherMedia.length > 0 && <span className={classes.dim}>{group.otherMedia.join('+')}</span>}
        </span>
      ))}
      {rest.length > 0 && <span className={classes.dim} title={rest.map(({ name }) => name).join(', ')}>+{rest.length}</span>}
    </span>
  );
}
