import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { RoleMark } from '../ui/role-mark.tsx';
import classes from './instance-cell.module.css';

export interface InstanceCellProps {
  readonly instance: InstanceView;
  /** It is the selected one of its list. */
  readonly isCurrent?: boolean;
  readonly onOpen: () => void;
}

/** An instance in a table: role, name to open it, address. */
export function InstanceCell({ instance, isCurrent, onOpen }: InstanceCellProps): ReactElement {
  return (
    <span className={classes.cell}>
      <RoleMark role={instance.role} />
      <button type="button" className={classes.name} aria-current={isCurrent} onClick={onOpen}>
        {instance.name}
      </button>
      <span className={classes.address} title={`${instance.role}, ${instance.url}`}>
        {instance.url.replace(/^https?:\/\//, '')}
      </span>
    </span>
  );
}
