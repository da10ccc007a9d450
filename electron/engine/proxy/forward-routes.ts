/**
 * Routes without P/D: the request goes to one instance as it is, and its answer comes back as it is. Which instances may
 * take a route, and which requests cannot be passed on honestly, stands in one table. What is not listed is refused with
 * 404; nothing is supported by half (vllm/entrypoints/launchers/api_server/routers.py).
 *
 * Routes that generate go to `both` and decode instances: a prefill instance is there for one-token requests. A protocol
 * whose decode instances cannot compute a prompt says so, and they go to its prefill instances. State that
 * an engine keeps between requests (`/v1/responses` by id) is on one instance only, so requests that build on it are
 * passed on only while there is one that could have it.
 */
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import type { ClientRequest } from './client-request.ts';
import type { Connector } from './connectors/connector.ts';
import { ProxyError } from './proxy-error.ts';

export interface ForwardRoute {
  readonly path: string;
  /** `generate`: instances that compute a whole request; `any`: whichever has the model loaded. */
  readonly to: 'generate' | 'any';
  /** Why a request builds on state that only one instance has; undefined when it does not. */
  readonly stateOf?: (json: ClientRequest['json']) => string | undefined;
}

function responsesState(json: ClientRequest['json']): string | undefined {
  if (typeof json['previous_response_id'] === 'string') return 'previous_response_id names a response that one instance keeps';
  if (json['background'] === true) return 'background responses are fetched later from the instance that made them';
  return undefined;
}

const any = (path: string): ForwardRoute => ({ path, to: 'any' });

export const FORWARD_ROUTES: readonly ForwardRoute[] = [
  { path: '/v1/responses', to: 'generate', stateOf: responsesState },
  { path: '/v1/messages', to: 'generate' },
  { path: '/v1/chat/completions/batch', to: 'generate' },
  { path: '/generative_scoring', to: 'generate' },
  any('/v1/messages/count_tokens'),
  any('/tokenize'),
  any('/detokenize'),
  any('/v1/chat/completions/render'),
  any('/v1/completions/render'),
  any('/v1/chat/completions/derender'),
  any('/v1/completions/derender'),
  any('/v1/embeddings'),
  any('/v2/embed'),
  any('/pooling'),
  any('/classify'),
  any('/score'),
  any('/v1/score'),
  any('/rerank'),
  any('/v1/rerank'),
  any('/v2/rerank'),
];

/** Serves one route in place of the connector in force, under its name. */
export function createForwarder(route: ForwardRoute, inForce: Connector, scheduler: LegScheduler): Connector {
  const { name, wholeOn = 'decode' } = inForce;
  const refuses = (instance: Instance): string | undefined => {
    if (route.to === 'any') return undefined;
    const { role } = instance;
    return inForce.refuses?.(instance, 'forward') ?? (role === 'both' || role === wholeOn ? undefined : `role ${role}: ${route.path} generates a whole answer`);
  };
  return {
    name,
    legs: ['forward'],
    refuses,
    run(context) {
      const state = route.stateOf?.(context.request.json);
      if (state !== undefined) refuseState(state, scheduler.candidates('forward').routable.filter((instance) => refuses(instance) === undefined).length);
      return context.repeat('forward', (target) => context.open({ kind: 'forward', ...target, body: context.request.body, rewrites: [], path: route.path }));
    },
    status: () => ({ connector: name, summary: 'Passed on whole to one instance.', notices: [], facts: [], tables: [] }),
  };
}

function refuseState(state: string, candidates: number): void {
  if (candidates < 2) return;
  const message = `This request cannot be passed on: ${state}, and there are ${candidates} instances. Send it to that instance directly, or send the whole conversation with each request.`;
  throw new ProxyError(404, 'instance_state', message, { type: 'not_found_error' });
}
