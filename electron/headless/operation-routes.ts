/** The operations registry over HTTP: `GET /api/operations` lists it, `POST /api/operations/:name` runs one. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { Engine } from '#engine/engine.ts';
import type { Logger } from '#engine/log.ts';
import { isOperationName, toErrorBody } from '#engine/session/session.ts';
import { PdscopeError, type ErrorBody } from '#shared/errors.ts';
import { OPERATION_INFO, OPERATION_INPUTS, type OperationName } from '#shared/operations.ts';

export interface OperationListing {
  readonly name: OperationName;
  readonly title: string;
  readonly kind: 'query' | 'command' | 'destructive';
  readonly summary: string;
  /** JSON Schema of the input. */
  readonly input: unknown;
}

/** Every operation with the JSON Schema of its input. */
export function listOperations(): readonly OperationListing[] {
  return (Object.keys(OPERATION_INPUTS) as OperationName[]).map((name) => ({
    name,
    ...OPERATION_INFO[name],
    input: z.toJSONSchema(OPERATION_INPUTS[name], { io: 'input' }),
  }));
}

/** HTTP status of an expected failure: what the caller can tell apart without reading the code. */
export function statusOf({ code }: ErrorBody): number {
  if (code === 'internal') return 500;
  if (code === 'unauthorized') return 401;
  if (code === 'forbidden') return 403;
  if (code === 'bad_input' || code === 'bad_message') return 400;
  if (code.startsWith('unknown_') || code.endsWith('_not_found')) return 404;
  return 409;
}

/** Adds both routes; who may use them is the caller's business. */
export function addOperationRoutes(app: FastifyInstance, engine: Pick<Engine, 'call'>, logger: Logger): void {
  let listing: readonly OperationListing[] | undefined;
  app.get('/api/operations', () => ({ operations: (listing ??= listOperations()) }));
  app.post<{ Params: { readonly name: string } }>('/api/operations/:name', async (request, reply) => {
    const { name } = request.params;
    try {
      if (!isOperationName(name)) {
        throw new PdscopeError('unknown_operation', `There is no operation "${name.slice(0, 64)}"; GET /api/operations lists them.`);
      }
      return await reply.send({ value: await engine.call(name, request.body ?? {}) });
    } catch (error) {
      const body = toErrorBody(error, logger, name);
      return reply.code(statusOf(body)).send({ error: body });
    }
  });
}
