/**
 * MoRIIO (vLLM on ROCm, MoRIIOConnector): engines register at a ZeroMQ socket of the proxy and join the fleet by
 * themselves; a pair is told about each other in the request id (since 2026-04-23) or in the parameters.
 * What is where: message.ts reads registrations, registry.ts keeps them, pair.ts and handoff.ts run a
 * request, whole.ts one without handoff, status.ts shows.
 *
 * Invariants: the socket is bound exactly while the protocol is in force; requests that run when it stops being so
 * work on, as they need nothing of it. A malformed message is counted and shown, never fatal.
 */
import type { ConnectorStatus } from '#shared/protocol.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { Answer, Connector, ConnectorServices, LegContext } from './connector.ts';
import { AllowedHosts } from './moriio/allowed-hosts.ts';
import { runPair } from './moriio/handoff.ts';
import { readMessage, type MoriioRegistration } from './moriio/message.ts';
import { Refusals } from './moriio/refusals.ts';
import { RegistrationSocket } from './moriio/registration-socket.ts';
import { Registry } from './moriio/registry.ts';
import { moriioStatus } from './moriio/status.ts';
import { malformedMessage, notAllowed, p2pNccl } from './moriio/verdicts.ts';
import { runWhole } from './moriio/whole.ts';
import { reasonAgainstPull } from './nixl-pull.ts';

export interface MoriioTiming {
  /** Expected between two registrations of an engine until learned otherwise. Default 3000 ms (PING_INTERVAL of moriio_common.py). */
  readonly pingMs?: number;
}

const PING_MS = 3000;
/** Looks for silent engines in the time of one ping. */
const CHECKS_PER_PING = 3;

export function createMoriio(services: ConnectorServices, timing: MoriioTiming = {}): MoriioConnector {
  return new MoriioConnector(services, timing.pingMs ?? PING_MS);
}

export class MoriioConnector implements Connector {
  readonly name = 'moriio';
  readonly legs = ['prefill', 'decode'] as const;
  readonly wholeOn = 'prefill';
  readonly #services: ConnectorServices;
  readonly #pingMs: number;
  readonly #registry: Registry;
  readonly #allowed: AllowedHosts;
  readonly #refusals = new Refusals();
  readonly #socket: RegistrationSocket;
  readonly #counts = { registrations: 0, hellos: 0, notAllowed: 0, p2pNccl: 0, malformed: 0 };
  #timer: NodeJS.Timeout | undefined;

  constructor(services: ConnectorServices, pingMs: number) {
    this.#services = services;
    this.#pingMs = pingMs;
    const { fleet, logger, options } = services;
    const report = services.report.bind(services);
    this.#allowed = new AllowedHosts(options.moriioAllow);
    this.#registry = new Registry({ fleet, logger, report, pingMs, mode: options.moriioMode });
    this.#socket = new RegistrationSocket({
      host: options.moriioHost,
      port: options.moriioPort,
      logger,
      onMessage: (frames) => this.#onMessage(frames),
    });
  }

  /** Where engines register, `tcp://host:port`; undefined while closed. */
  get endpoint(): string | undefined {
    return this.#socket.endpoint;
  }

  async activate(): Promise<void> {
    await this.#socket.open();
    this.#registry.resume(performance.now());
    this.#timer ??= setInterval(() => this.#registry.check(performance.now()), this.#pingMs / CHECKS_PER_PING).unref();
  }

  async deactivate(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#registry.pause();
    await this.#socket.close();
  }

  async close(): Promise<void> {
    await this.deactivate();
    this.#registry.close();
  }

  refuses(instance: Instance, kind: LegKind): string | undefined {
    return this.#registry.refusal(instance, kind);
  }

  run(context: LegContext): Promise<Answer> {
    const reason = reasonAgainstPull(context.request);
    return reason === undefined ? runPair(context, this.#registry) : runWhole(context, reason, 'info');
  }

  status(): ConnectorStatus {
    return moriioStatus({
      endpoint: this.endpoint,
      port: this.#services.options.moriioPort,
      registry: this.#registry,
      refusals: this.#refusals,
      counts: this.#counts,
      instances: this.#services.fleet.list(),
      nowMs: performance.now(),
    });
  }

  /** Two frames, identity and map; a REQ socket would put an empty one between. */
  #onMessage(frames: readonly Uint8Array[]): void {
    const payload = frames.at(-1);
    const isFramed = frames.length === 2 || (frames.length === 3 && frames[1]?.length === 0);
    if (payload === undefined || !isFramed) {
      this.#refuseMalformed(`${frames.length} frames instead of identity and map`);
      return;
    }
    const message = readMessage(payload);
    switch (message.kind) {
      case 'registration':
        this.#onRegistration(message.registration);
        break;
      case 'hello':
        this.#counts.hellos += 1;
        break;
      case 'p2p-nccl':
        this.#counts.p2pNccl += 1;
        if (this.#refusals.add(`P2P-NCCL heartbeat of ${JSON.stringify(message.httpAddress.slice(0, 80))}`, 'another protocol: its zmq_address does not begin with "host:"')) {
          this.#services.report(p2pNccl(message.httpAddress));
        }
        break;
      case 'malformed':
        this.#refuseMalformed(message.problem);
        break;
    }
  }

  #onRegistration(registration: MoriioRegistration): void {
    const { origin, host } = registration;
    const outside = [new URL(origin).hostname.replace(/^\[|\]$/g, ''), host].find((each) => !this.#allowed.has(each));
    if (outside === undefined) {
      this.#counts.registrations += 1;
      this.#registry.heard(registration, performance.now());
      return;
    }
    this.#counts.notAllowed += 1;
    if (this.#refusals.add(`registration of ${origin}`, `${outside} is not allowed (--moriio-allow)`)) this.#services.report(notAllowed(origin, outside));
  }

  #refuseMalformed(problem: string): void {
    this.#counts.malformed += 1;
    if (!this.#refusals.add('malformed message', problem)) return;
    // Anybody can send here: beyond so many kinds the log would be theirs to fill.
    if (this.#refusals.evicted === 0) this.#services.logger.warn({ problem }, 'a message at the MoRIIO port is no registration');
    this.#services.report(malformedMessage(problem));
  }
}
