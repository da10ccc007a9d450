/**
 * Mooncake (MooncakeConnector since 2026-02-03, vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py).
 * Both legs run at once. Decode is told a transfer id, prefill's engine id and its bootstrap server; it asks prefill's
 * worker, which pushes. Prefill's answer carries nothing, so it is watched: a decode leg that waits for KV that will not
 * come would wait for VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT (480 s). What is where: mooncake/bootstrap-*.ts know the engine ids,
 * handoff.ts makes the legs, which concurrent-pair.ts couples; verdicts.ts and status.ts are for people.
 *
 * Invariants: a transfer id serves one try, so a repeated pair cannot meet the old one; no request asks a bootstrap server;
 * a decode leg waits only as long as the engine id that it was told is the one in the table.
 */
import type { ConnectorStatus } from '#shared/protocol.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import { LinkedSet } from '../linked-set.ts';
import { describeLeg, ProxyError } from '../proxy-error.ts';
import { clientRank } from './client-rank.ts';
import type { Answer, Connector, ConnectorServices, LegContext, LegTarget } from './connector.ts';
import { decodeAlone } from './decode-alone.ts';
import { BootstrapBook } from './mooncake/bootstrap-book.ts';
import type { BootstrapEntry, BootstrapSlot, BootstrapTiming } from './mooncake/bootstrap-entry.ts';
import { Handoff, restarted } from './mooncake/handoff.ts';
import { mooncakeStatus } from './mooncake/status.ts';
import { bootstrapUnanswered, kvLeftBehind, prefillKeptNoKv, staleEngineId } from './mooncake/verdicts.ts';
import { decodeWithoutPrefill, reasonAgainstPull, unchanged } from './nixl-pull.ts';

export interface MooncakeTiming extends BootstrapTiming {
  /** How long decode may be silent after prefill's answer before the bootstrap server is asked whether prefill restarted. */
  readonly graceMs: number;
  /** How long coming into force waits for the first answers. */
  readonly firstAnswersMs: number;
}

const TIMING: MooncakeTiming = { queryMs: 2500, pollMs: 1000, maxPollMs: 5000, minGapMs: 250, graceMs: 5000, firstAnswersMs: 1000 };

/** Failed questions in a row after which a finding is made of it. */
const STRIKES_TO_REPORT = 3;

export function createMooncake(services: ConnectorServices, timing: Partial<MooncakeTiming> = {}): Connector {
  return new MooncakeConnector(services, { ...TIMING, ...timing });
}

class MooncakeConnector implements Connector {
  readonly name = 'mooncake';
  readonly legs = ['prefill', 'decode'] as const;
  readonly #services: ConnectorServices;
  readonly #timing: MooncakeTiming;
  readonly #book: BootstrapBook;
  readonly #waiting = new LinkedSet<Handoff>();
  readonly #counts = { handoffs: 0, keptNoKv: 0, staleEngineIds: 0 };
  #sweep: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(services: ConnectorServices, timing: MooncakeTiming) {
    this.#services = services;
    this.#timing = timing;
    this.#book = new BootstrapBook({
      fleet: services.fleet,
      defaultPort: services.options.bootstrapPort,
      timing,
      onAsked: (entry) => this.#asked(entry),
    });
  }

  /** Does not wait long for bootstrap servers: an instance without an answer is left out until there is one. */
  async activate(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#timing.firstAnswersMs);
    });
    await Promise.race([this.#book.start(), patience]);
    clearTimeout(timer);
  }

  async deactivate(): Promise<void> {
    this.#book.stop();
    await Promise.resolve();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#sweep);
    await this.#book.close();
  }

  refuses(instance: Instance, kind: LegKind): string | undefined {
    if (kind !== 'prefill') return undefined;
    const entry = this.#book.of(instance);
    return entry === undefined ? 'bootstrap not answered yet: it was not asked' : entry.refusal;
  }

  status(): ConnectorStatus {
    return mooncakeStatus(this.#book.list(), { ...this.#counts, waiting: this.#waiting.size });
  }

  async run(context: LegContext): Promise<Answer> {
    const reason = reasonAgainstPull(context.request);
    if (reason !== undefined) return decodeWithoutPrefill(context, unchanged(context.request), reason);
    const { target, entry, slot } = await this.#choosePrefill(context);
    const handoff = new Handoff(context, { prefill: target, decode: context.choose('decode'), entry, slot });
    this.#counts.handoffs += 1;
    this.#waiting.add(handoff);
    this.#planSweep();
    try {
      return await handoff.run();
    } catch (error) {
      if (handoff.keptNothing !== undefined && error === handoff.keptNothing.reason) return await this.#runAlone(context, handoff, handoff.keptNothing.finishReason);
      this.#judge(context, handoff, error);
      throw error;
    } finally {
      this.#waiting.delete(handoff);
    }
  }

  async #choosePrefill(context: LegContext): Promise<{ readonly target: LegTarget; readonly entry: BootstrapEntry; readonly slot: BootstrapSlot }> {
    const target = context.choose('prefill');
    const { instance } = target;
    const entry = this.#book.of(instance);
    await entry?.settled();
    const slot = entry?.pick(target.rank ?? clientRank(context.request));
    if (entry === undefined || slot === undefined) {
      const why = this.refuses(instance, 'prefill') ?? 'bootstrap not answered yet';
      throw new ProxyError(503, 'bootstrap_unanswered', `${describeLeg('prefill', instance)}: ${why}.`, { leg: 'prefill', instance, retryable: true, isRequestFault: true });
    }
    return { target: slot.pinned === undefined ? { instance } : { instance, rank: slot.pinned }, entry, slot };
  }

  /** Decode had to be cancelled, or it would wait for nothing. Without a handoff it is simply repeated when it fails. */
  #runAlone(context: LegContext, { prefill: { instance } }: Handoff, finishReason: string): Promise<Answer> {
    this.#counts.keptNoKv += 1;
    context.report(prefillKeptNoKv(instance, finishReason));
    return decodeAlone(context, `the prefill leg ended by ${finishReason}`);
  }

  /** Whatever failed in an instance may have failed because the engine id was an old one. */
  #judge(context: LegContext, handoff: Handoff, error: unknown): void {
    if (!(error instanceof ProxyError)) return;
    const { instance } = handoff.prefill;
    const isPrefills = error.leg === 'prefill';
    const isInstanceFault = error.leg !== undefined && !error.isRequestFault;
    if (isInstanceFault) this.#book.of(instance)?.doubt();
    // A refusal of decode's frees the blocks, when it came before admission (vLLM since 2026-05-09).
    if (handoff.hasKeptKv && !isPrefills && (isInstanceFault || error.leg === undefined)) context.report(kvLeftBehind(instance, error.message));
  }

  /** An answer is in, or there is none: do the requests that wait still wait for an engine that exists? */
  #asked(entry: BootstrapEntry): void {
    const { instance } = entry;
    if (entry.strikes === STRIKES_TO_REPORT && instance.state === 'up') this.#services.report(bootstrapUnanswered(entry));
    const isDead = entry.isGone && instance.state === 'down';
    if (entry.problem !== undefined && !isDead) return;
    for (const handoff of this.#waiting.toArray()) {
      if (handoff.entry !== entry) continue;
      const now = isDead ? undefined : entry.engineIdOf(handoff.slot.rank);
      if (now === handoff.slot.engineId || !handoff.mayWaitForKv) continue;
      this.#counts.staleEngineIds += 1;
      handoff.context.report(staleEngineId(instance, handoff.slot.engineId, now));
      handoff.cancel(restarted(instance));
    }
  }

  /** One timer for all requests: prefill has answered, decode is silent; ask whether prefill is still the same. */
  #planSweep(): void {
    if (this.#isClosed) return;
    this.#sweep ??= setTimeout(() => {
      this.#sweep = undefined;
      const nowMs = performance.now();
      const due = new Set<BootstrapEntry>();
      for (const handoff of this.#waiting.toArray()) {
        if ((handoff.sincePrefillMs(nowMs) ?? 0) >= this.#timing.graceMs) due.add(handoff.entry);
      }
      for (const entry of due) void entry.ask();
      if (this.#waiting.size > 0) this.#planSweep();
    }, this.#timing.graceMs / 2).unref();
  }
}
