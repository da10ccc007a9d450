/**
 * One SUB socket: connects (or binds, for engines whose publisher connects), receives, and says how the connection
 * does. libzmq reconnects by itself; the monitor tells. The receive loop hands frames on and returns at once.
 *
 * libzmq drops silently beyond its high-water mark, on either side: sequence numbers are the only witness.
 */
import { Subscriber, type Event } from 'zeromq';
import { errorMessage } from '#shared/errors.ts';
import { isIpv6Endpoint, type SocketMode } from './endpoints.ts';
import type { IntakeTurn } from './intake-turn.ts';

export type SocketPhase = 'connecting' | 'connected' | 'lost' | 'failed';

export interface SubSocketOptions {
  readonly endpoint: string;
  readonly mode: SocketMode;
  /** Byte prefix of frame 0; '' for all. */
  readonly topic: string;
  readonly intake: IntakeTurn;
  /** Gets each message's frames; must not throw. */
  readonly onMessage: (frames: readonly Uint8Array[]) => void;
  /** `reason` in words; absent when there is nothing to say. */
  readonly onPhase: (phase: SocketPhase, reason: string | undefined) => void;
  /** A peer was met, the first or a new one; before the phase that follows. Data may come earlier. */
  readonly onHandshake?: () => void;
}

/** Per stream, in libzmq's memory: at 1 KB a batch about 10 MB, and a third of a second of the fastest engines. */
const RECEIVE_HIGH_WATER_MARK = 10_000;
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Between attempts that libzmq does not make by itself: binding again, and peers it has given up on, ms. */
const RETRY_MS = 1000;

export class SubSocket {
  readonly #options: SubSocketOptions;
  #socket: Subscriber | undefined;
  #loops: Promise<unknown> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;
  #peers = 0;
  /** A TCP connection was made since the last attempt; whoever is there may still be no publisher. */
  #isAccepted = false;
  /** Between `#part` and the next attempt. */
  #isParted = false;
  #phase: SocketPhase = 'connecting';

  constructor(options: SubSocketOptions) {
    this.#options = options;
  }

  /** Starts. Never throws: a socket that cannot be made is phase `failed`; binding is tried again. */
  open(): void {
    const { endpoint, mode, topic } = this.#options;
    let socket: Subscriber | undefined;
    try {
      socket = new Subscriber({
        receiveHighWaterMark: RECEIVE_HIGH_WATER_MARK,
        // Refused in libzmq, before the bytes are here; the decoder has its own, lower and visible limit.
        maxMessageSize: MAX_MESSAGE_BYTES,
        linger: 0,
        reconnectInterval: 100,
        reconnectMaxInterval: 3000,
        // A peer that vanished without a FIN is noticed after 25 s instead of hours.
        tcpKeepalive: 1,
        tcpKeepaliveIdle: 10,
        tcpKeepaliveInterval: 5,
        tcpKeepaliveCount: 3,
        ipv6: isIpv6Endpoint(endpoint),
      });
      socket.subscribe(topic);
      if (mode === 'bind') socket.bindSync(endpoint);
      const events = this.#watch(socket);
      if (mode === 'connect') socket.connect(endpoint);
      this.#socket = socket;
      this.#loops = Promise.all([events, this.#receive(socket)]);
      this.#setPhase('connecting', mode === 'bind' ? `bound to ${endpoint}, no engine has connected yet` : undefined);
    } catch (error) {
      socket?.close();
      this.#setPhase('failed', `cannot ${mode} ${endpoint}: ${errorMessage(error)}`);
      // The port may only be waiting for its last owner, which was closed a moment ago.
      if (mode === 'bind') this.#later(() => this.open());
    }
  }

  /** Resolves once nothing more will be handed on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.#socket?.close();
    this.#socket = undefined;
    await this.#loops;
  }

  async #receive(socket: Subscriber): Promise<void> {
    const { intake, onMessage, endpoint } = this.#options;
    try {
      for await (const frames of socket) {
        // The monitor is a socket of its own and may lag behind the data.
        if (this.#phase !== 'connected') this.#setPhase('connected', undefined);
        onMessage(frames);
        if (intake.isSpent()) await intake.next();
      }
    } catch (error) {
      if (!socket.closed) this.#setPhase('failed', `receiving from ${endpoint} ended: ${errorMessage(error)}`);
    }
  }

  async #watch(socket: Subscriber): Promise<void> {
    try {
      for await (const event of socket.events) this.#onEvent(event);
    } catch (error) {
      if (!socket.closed) this.#setPhase(this.#phase, `the connection's state is no longer known: ${errorMessage(error)}`);
    }
  }

  #onEvent(event: Event): void {
    const { endpoint, mode } = this.#options;
    switch (event.type) {
      case 'connect':
        this.#isAccepted = true;
        break;
      case 'handshake':
        // Of a connection that was given up meanwhile.
        if (this.#isParted) break;
        this.#peers += 1;
        this.#options.onHandshake?.();
        this.#setPhase('connected', undefined);
        break;
      case 'disconnect':
        this.#onDisconnect();
        break;
      case 'handshake:error:protocol':
      case 'handshake:error:auth':
      case 'handshake:error:other':
        if (mode === 'connect') this.#onForeigner();
        else this.#setPhase(this.#phase, 'a peer connected that does not speak ZeroMQ');
        break;
      case 'connect:retry':
        if (this.#isParted) break;
        clearTimeout(this.#retry);
        if (this.#phase === 'connecting' && !this.#isAccepted) this.#setPhase('connecting', `cannot reach ${endpoint} yet; trying again`);
        this.#isAccepted = false;
        break;
      case 'accept': case 'accept:error': case 'bind': case 'bind:error': case 'connect:delay':
      case 'close': case 'close:error': case 'end': case 'unknown':
        break;
    }
  }

  /**
   * A socket of another type, on which libzmq gives up and says nothing, or something else, a web server say, which libzmq
   * would ask ten times a second for ever. An engine may take its place one day.
   */
  #onForeigner(): void {
    const { endpoint } = this.#options;
    this.#setPhase(this.#phase, `${endpoint} accepts connections but is no KV-event publisher (the replay port or the HTTP port, perhaps?); trying again`);
    this.#part();
    this.#later(() => this.#reconnect());
  }

  /** Until the next attempt, libzmq makes none. */
  #part(): void {
    if (this.#isParted) return;
    this.#isParted = true;
    try {
      this.#socket?.disconnect(this.#options.endpoint);
    } catch {
      // libzmq has let go of the peer by itself.
    }
  }

  #onDisconnect(): void {
    const { endpoint, mode } = this.#options;
    if (this.#isParted) return;
    if (this.#phase === 'connected') {
      this.#peers = Math.max(0, this.#peers - 1);
      if (this.#peers > 0) return;
      this.#setPhase('lost', mode === 'bind' ? 'the engine disconnected' : `the connection to ${endpoint} broke; trying again`);
      // libzmq tries again by itself, and says so, unless the peer broke the protocol or sent a message beyond the limit:
      // then it gives up without a word (session_base.cpp, engine_error).
      if (mode === 'connect') this.#later(() => this.#reconnect());
    } else if (mode === 'connect' && this.#isAccepted) this.#onForeigner();
  }

  #reconnect(): void {
    const { endpoint } = this.#options;
    this.#part();
    try {
      this.#isParted = false;
      this.#isAccepted = false;
      this.#socket?.connect(endpoint);
    } catch (error) {
      this.#setPhase('failed', `cannot connect ${endpoint} again: ${errorMessage(error)}`);
    }
  }

  #later(attempt: () => void): void {
    clearTimeout(this.#retry);
    if (this.#isClosed) return;
    this.#retry = setTimeout(attempt, RETRY_MS);
  }

  #setPhase(phase: SocketPhase, reason: string | undefined): void {
    this.#phase = phase;
    this.#options.onPhase(phase, reason);
  }
}
