import type { ReactElement } from 'react';
import type { Role } from '#shared/vocabulary.ts';
import { InstanceName } from '../../ui/role-mark.tsx';

/** Name of an instance with its mark of role; of the fleet, or of an instance that left, the name alone. */
export function InstanceOrFleet({ role, name }: { readonly role: Role | undefined; readonly name: string }): ReactElement {
  return role === undefined ? <>{name}</> : <InstanceName role={role} name={name} />;
}
