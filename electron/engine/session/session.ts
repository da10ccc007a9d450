/**
 * One connected page: calls, subscriptions and back-pressure, the same over a WebSocket and an Electron port.
 *
 * Invariants: every call is answered once; a subscription starts with a snapshot and its frames are numbered without
 * holes; nothing is queued here: a peer that does not keep up is skipped, counted, and started over with a snapshot.
 * What a peer sends is untrusted: it is validated, bounded in number, and never ends the process.
 */
import { z } from 'zod';
import { errorMessage, PdscopeError, type ErrorBody } from '#shared/errors.ts';
import { compileFilter } from '#shared/filter/compile.ts';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import { OPERATION_INPUTS, type OperationName } from '#shared/operations.ts';
import type { EngineState } from '#shared/state.ts';
import { ClientMessageSchema, PROTOCOL_VERSION, type HostMessage } from '#shared/wire.ts';
import type { Engine } from '../engine.ts';
import { SEARCHED_KV_FIELDS } from '../kv-events/searched-fields.ts';
import { silentLogger, type Logger } from '../log.ts';
import { openSubscription, type Subscription, type SubscribeMessage } from './subscription.ts';
import { tickerOf, type TickListener } from './ticker.ts';

/** What a session needs of an engine. */
export type SessionEngine = Pick<Engine, 'call' | 'state' | 'requests' | 'kv'>;

/** Where a session writes to: one peer. */
export interface SessionSink {
  send(message: HostMessage): void;
  /** Bytes sent that the peer has not taken yet. */
  bufferedBytes(): number;
}

export interface SessionOptions {
  /** Default: nothing is logged. */
  readonly logger?: Logger;
  /** Bytes waiting for the peer above which frames are skipped. Default 1 MiB. */
  readonly maxBufferedBytes?: number;
  /** Default 16: a page needs four. */
  readonly maxSubscriptions?: number;
  /** Calls under way at once. Default 64. */
  readonly maxCalls?: number;
}

export interface Session {
  /** Takes one message of the peer: an object, not yet validated. Never throws. */
  receive(message: unknown): void;
  /** Ends the subscriptions. Answers of calls still under way are dropped. */
  close(): void;
}

/** Where the answer to a message that could not be read would go. */
const AddressSchema = z.union([
  z.object({ t: z.literal('call'), id: z.number().int() }),
  z.object({ t: z.enum(['subscribe', 'unsubscribe']), sub: z.number().int() }),
]);

/** Greets the peer and serves it until `close`. */
export function createSession(engine: SessionEngine, sink: SessionSink, options: SessionOptions = {}): Session {
  const { logger = silentLogger, maxBufferedBytes = 1024 * 1024, maxSubscriptions = 16, maxCalls = 64 } = options;
  const ticker = tickerOf(engine);
  const subscriptions = new Map<number, Subscription>();
  let callsUnderWay = 0;
  let isClosed = false;

  const send = (message: HostMessage): void => {
    if (!isClosed) sink.send(message);
  };
  const isBehind = (): boolean => sink.bufferedBytes() > maxBufferedBytes;

  const listener: TickListener = {
    get wantsState() {
      return Array.from(subscriptions.values()).some((subscription) => subscription.channel === 'state');
    },
    onRowTick: () => tick(),
    onStateTick: (state) => tick(state),
  };

  function tick(state?: EngineState): void {
    for (const [sub, subscription] of subscriptions) {
      if ((subscription.channel === 'state') !== (state !== undefined)) continue;
      try {
        subscription.tick(state);
      } catch (error) {
        fail(sub, error);
      }
    }
  }

  /** One subscription that cannot be served costs itself; the page is told and the others go on. */
  function fail(sub: number, error: unknown): void {
    drop(sub);
    logger.error({ err: error, sub }, 'a subscription failed and was ended');
    send({ t: 'rejected', sub, error: internalError() });
  }

  function drop(sub: number): void {
    subscriptions.get(sub)?.close();
    subscriptions.delete(sub);
    if (subscriptions.size === 0) ticker.remove(listener);
  }

  async function call(id: number, op: string, input: unknown): Promise<void> {
    if (callsUnderWay >= maxCalls) {
      const error = new PdscopeError('too_many_calls', `${maxCalls} calls are under way already; wait for one to finish.`, { retryable: true });
      send({ t: 'result', id, ok: false, error: error.toBody() });
      return;
    }
    callsUnderWay += 1;
    try {
      if (!isOperationName(op)) throw new PdscopeError('unknown_operation', `There is no operation "${op.slice(0, 64)}".`);
      const value = await engine.call(op, input);
      send({ t: 'result', id, ok: true, value });
    } catch (error) {
      send({ t: 'result', id, ok: false, error: toErrorBody(error, logger, op) });
    } finally {
      callsUnderWay -= 1;
    }
  }

  function subscribe(message: SubscribeMessage): void {
    const { sub } = message;
    try {
      if (subscriptions.has(sub)) throw new PdscopeError('duplicate_subscription', `Subscription ${sub} is open already.`);
      if (subscriptions.size >= maxSubscriptions) {
        throw new PdscopeError('too_many_subscriptions', `A session has at most ${maxSubscriptions} subscriptions; close one first.`);
      }
      const subscription = open(message);
      subscriptions.set(sub, subscription);
      ticker.add(listener);
      subscription.start();
    } catch (error) {
      send({ t: 'rejected', sub, error: toErrorBody(error, logger, `subscribe ${message.channel}`) });
    }
  }

  function open(message: SubscribeMessage): Subscription {
    const common = { message, send, isBehind, fail: (error: unknown) => fail(message.sub, error) };
    const { channel, filter } = message;
    if (channel === 'state') return openSubscription({ ...common, channel, state: () => engine.state() });
    if (channel === 'requests') return openSubscription({ ...common, channel, log: engine.requests, filter: compile(filter, REQUEST_FILTER_FIELDS) });
    return openSubscription({ ...common, channel, log: engine.kv, filter: compile(filter, SEARCHED_KV_FIELDS) });
  }

  const { version, host, simulation } = engine.state();
  send({ t: 'hello', protocol: PROTOCOL_VERSION, version, host, isSimulated: simulation !== undefined });

  return {
    receive(raw) {
      if (isClosed) return;
      const parsed = ClientMessageSchema.safeParse(raw);
      if (!parsed.success) {
        refuse(raw, parsed.error);
        return;
      }
      const message = parsed.data;
      if (message.t === 'call') void call(message.id, message.op, message.input);
      else if (message.t === 'subscribe') subscribe(message);
      else drop(message.sub);
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      for (const sub of Array.from(subscriptions.keys())) drop(sub);
    },
  };

  function refuse(raw: unknown, problem: z.ZodError): void {
    const [issue] = problem.issues;
    const where = issue === undefined || issue.path.length === 0 ? '' : `${issue.path.join('.')}: `;
    const error = new PdscopeError('bad_message', `Not a message of session protocol ${PROTOCOL_VERSION}: ${where}${issue?.message ?? ''}`).toBody();
    const address = AddressSchema.safeParse(raw);
    if (!address.success) logger.warn({ problem: error.message }, 'a session sent a message that could not be read');
    else if (address.data.t === 'call') send({ t: 'result', id: address.data.id, ok: false, error });
    else send({ t: 'rejected', sub: address.data.sub, error });
  }
}

function compile<Row>(text: string, fields: Parameters<typeof compileFilter<Row>>[1]): ((row: Row) => boolean) | undefined {
  if (text.trim() === '') return undefined;
  const compiled = compileFilter(text, fields);
  if (!compiled.ok) throw new PdscopeError('bad_filter', compiled.error);
  return compiled.matches;
}

export function isOperationName(name: string): name is OperationName {
  return Object.hasOwn(OPERATION_INPUTS, name);
}

function internalError(): ErrorBody {
  return { code: 'internal', message: "Something in pdscope itself went wrong; its log has the details.", retryable: false };
}

/** Expected failures as they are; anything else is logged, and its text stays in the log. */
export function toErrorBody(error: unknown, logger: Logger, what: string): ErrorBody {
  if (error instanceof PdscopeError) return error.toBody();
  logger.error({ err: error, what }, `unexpected failure: ${errorMessage(error)}`);
  return internalError();
}
