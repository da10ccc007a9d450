/** Whether an instance serves what the fleet serves. Prefill and decode must run the same model or the KV is garbage. */
import type { Instance } from './instance.ts';

/**
 * @returns undefined when the models fit (or nothing is known), else a clause that names both models, e.g.
 * `serves "a", but the fleet serves "b" (P0): ...`. Adapters count: one shared name is enough.
 */
export function modelMismatch(models: readonly string[], fleet: readonly Instance[]): string | undefined {
  if (models.length === 0) return undefined;
  const known = fleet.filter((instance) => instance.models.length > 0);
  if (known.length === 0) return undefined;
  const own = new Set(models);
  if (known.some((instance) => instance.models.some((model) => own.has(model)))) return undefined;
  const first = known[0];
  return `serves ${quote(models)}, but the fleet serves ${quote(first?.models ?? [])} (${first?.name ?? ''}): legs of one request need the same model.`;
}

function quote(models: readonly string[]): string {
  const shown = models.slice(0, 3).map((model) => `"${model}"`).join(', ');
  return models.length > 3 ? `${shown} and ${models.length - 3} more` : shown;
}
