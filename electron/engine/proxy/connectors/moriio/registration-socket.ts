/**
 * The ROUTER socket at which engines register (they are DEALERs: identity, msgpack map; no answer is expected).
 * Bound while the protocol is in force only, so that the port is free for another program otherwise.
 *
 * One receive is pending at a time, and receiving yields to the event loop: a flood of messages must not delay tokens.
 * What libzmq refuses (a message beyond the limit) never gets here; its sender is disconnected.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { Router } from 'zeromq';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { IntakeTurn } from '../../../kv-events/intake-turn.ts';
import type { Logger } from '../../../log.ts';

export interface RegistrationSocketOptions {
  /** Address, name or `*`. */
  readonly host: string;
  /** 0 = any free one. */
  readonly port: number;
  readonly logger: Logger;
  /** Gets each message's frames; must not throw. */
  readonly onMessage: (frames: readonly Uint8Array[]) => void;
}

const RECEIVE_HIGH_WATER_MARK = 1000;
const MAX_FRAME_BYTES = 64 * 1024;
/** libzmq gives a port back in the background, shortly after the socket was closed. */
const REBIND_TRIES = 40;
const REBIND_PAUSE_MS = 50;

export class RegistrationSocket {
  readonly #options: RegistrationSocketOptions;
  #socket: Router | undefined;
  #receiving: Promise<void> = Promise.resolve();
  #wasBound = false;

  constructor(options: RegistrationSocketOptions) {
    this.#options = options;
  }

  /** `tcp://host:port`; undefined while closed. */
  get endpoint(): string | undefined {
    return this.#socket?.lastEndpoint ?? undefined;
  }

  /** Binds. Rejects with PdscopeError `port_in_use` or `listen_failed`. */
  async open(): Promise<void> {
    if (this.#socket !== undefined) return;
    const { host, port } = this.#options;
    const address = await resolve(host);
    const tries = this.#wasBound ? REBIND_TRIES : 1;
    const socket = await bind(`tcp://${address.includes(':') ? `[${address}]` : address}:${port === 0 ? '*' : port}`, tries).catch((error: unknown) => {
      throw bindError(error, host, port);
    });
    this.#socket = socket;
    this.#wasBound = true;
    this.#receiving = this.#receive(socket);
  }

  /** Resolves once nothing more will be handed on; the port is free then or a moment later. */
  async close(): Promise<void> {
    this.#socket?.close();
    this.#socket = undefined;
    await this.#receiving;
  }

  async #receive(socket: Router): Promise<void> {
    const { onMessage, logger } = this.#options;
    const intake = new IntakeTurn();
    try {
      for await (const frames of socket) {
        onMessage(frames);
        if (intake.isSpent()) await intake.next();
      }
    } catch (error) {
      if (!socket.closed) logger.error({ error: errorMessage(error) }, 'receiving MoRIIO registrations ended');
    }
  }
}

async function bind(endpoint: string, tries: number): Promise<Router> {
  for (let attempt = 1; ; attempt++) {
    const socket = new Router({
      receiveHighWaterMark: RECEIVE_HIGH_WATER_MARK,
      maxMessageSize: MAX_FRAME_BYTES,
      linger: 0,
      ipv6: endpoint.includes('['),
      // An engine that restarted under the same identity takes its old connection's place.
      handover: true,
    });
    try {
      await socket.bind(endpoint);
      return socket;
    } catch (error) {
      socket.close();
      if (attempt >= tries || codeOf(error) !== 'EADDRINUSE') throw error;
      await new Promise((resolve) => setTimeout(resolve, REBIND_PAUSE_MS));
    }
  }
}

/** libzmq binds to addresses and interfaces, not to names. */
async function resolve(host: string): Promise<string> {
  const bare = host.replace(/^\[|\]$/g, '');
  if (bare === '*' || isIP(bare) !== 0) return bare;
  try {
    return (await lookup(bare)).address;
  } catch {
    // Perhaps an interface, such as eth0: libzmq decides.
    return bare;
  }
}

function bindError(error: unknown, host: string, port: number): PdscopeError {
  if (codeOf(error) === 'EADDRINUSE') {
    const message = `Port ${port} on ${host}, where MoRIIO engines register, is taken by another program (another MoRIIO proxy?): stop that one, or choose another port with --moriio-port and give it to the engines as proxy_ping_port.`;
    return new PdscopeError('port_in_use', message, { cause: error });
  }
  const message = `MoRIIO engines cannot register: ${host}:${port} cannot be bound (${errorMessage(error)}). Give an address of this machine with --moriio-host.`;
  return new PdscopeError('listen_failed', message, { cause: error });
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
