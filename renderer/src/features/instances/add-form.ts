/** The form's fields as text, and the specification they make. Only shape is checked here; the engine judges the rest. */
import { InstanceSpecSchema, type InstanceSpec } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';

export interface AddFormFields {
  readonly role: Role;
  readonly url: string;
  readonly name: string;
  /** '' = the engine finds out. */
  readonly dpSize: number | '';
  /** '' = the protocol's setting; asked for with instances that prefill. */
  readonly bootstrapPort: number | '';
  /** '' = worked out or measured, where that is possible. */
  readonly kvBytesPerToken: number | '';
  /** '' = no KV events. */
  readonly endpoint: string;
  readonly replayEndpoint: string;
  readonly topic: string;
  readonly ranks: number;
  readonly mode: 'connect' | 'bind';
}

export const EMPTY_FIELDS: AddFormFields = {
  role: 'prefill', url: '', name: '', dpSize: '', bootstrapPort: '', kvBytesPerToken: '', endpoint: '', replayEndpoint: '', topic: '', ranks: 1, mode: 'connect',
};

export type AddFormField = keyof AddFormFields;

export type AddFormOutcome =
  | { readonly isValid: true; readonly spec: InstanceSpec }
  | { readonly isValid: false; readonly problems: Partial<Record<AddFormField, string>> };

const FIELD_OF_PATH: Readonly<Record<string, AddFormField>> = {
  role: 'role', url: 'url', name: 'name', dpSize: 'dpSize', bootstrapPort: 'bootstrapPort', kvBytesPerToken: 'kvBytesPerToken',
  'kvEvents.endpoint': 'endpoint', 'kvEvents.replayEndpoint': 'replayEndpoint', 'kvEvents.topic': 'topic', 'kvEvents.ranks': 'ranks', 'kvEvents.mode': 'mode',
};

/** Whether an instance of this role has a bootstrap server under mooncake. */
export function canPrefill(role: Role): boolean {
  return role === 'prefill' || role === 'both';
}

/** Empty texts are left out, so that the engine's defaults apply. */
export function readFields(fields: AddFormFields): AddFormOutcome {
  const url = fields.url.trim();
  if (url === '') return { isValid: false, problems: { url: 'Enter host:port or http(s)://host:port.' } };
  const endpoint = fields.endpoint.trim();
  const replayEndpoint = fields.replayEndpoint.trim();
  if (endpoint === '' && replayEndpoint !== '') {
    return { isValid: false, problems: { endpoint: 'A replay endpoint needs the endpoint that it replays.' } };
  }
  const parsed = InstanceSpecSchema.safeParse({
    role: fields.role,
    url,
    ...(fields.name.trim() !== '' && { name: fields.name.trim() }),
    ...(fields.dpSize !== '' && { dpSize: fields.dpSize }),
    ...(fields.bootstrapPort !== '' && canPrefill(fields.role) && { bootstrapPort: fields.bootstrapPort }),
    ...(fields.kvBytesPerToken !== '' && { kvBytesPerToken: fields.kvBytesPerToken }),
    ...(endpoint !== '' && {
      kvEvents: { endpoint, topic: fields.topic, ranks: fields.ranks, mode: fields.mode, ...(replayEndpoint !== '' && { replayEndpoint }) },
    }),
  });
  if (parsed.success) return { isValid: true, spec: parsed.data };
  const problems: Partial<Record<AddFormField, string>> = {};
  for (const issue of parsed.error.issues) {
    const field = FIELD_OF_PATH[issue.path.join('.')];
    if (field !== undefined) problems[field] ??= issue.message;
  }
  return { isValid: false, problems };
}
