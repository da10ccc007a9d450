/**
 * Watches one instance: its health and its metrics, each in a loop of its own. Reports to the fleet through callbacks
 * and changes nothing itself. Limits on concurrency are the fleet's; instances that last timed out wait in a lane of
 * their own, so that any number of hanging ones leaves the others' checks on time.
 */
import type { Dispatcher } from 'undici';
import { PdscopeError } from '#shared/errors.ts';
import type { EngineGauges } from '#shared/instance.ts';
import { describeConnectError } from './connect-error.ts';
import { GaugeReducer, isGaugeMetric } from './engine-gauges.ts';
import { httpGet } from './http-get.ts';
import type { Limiter } from './limiter.ts';
import { Periodic } from './periodic.ts';
import { checkHealth, probeOrigin, type ProbeFindings, type ProbeOptions } from './probe.ts';
import { parsePrometheusText } from './prometheus-text.ts';

export interface MonitorSettings {
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
  readonly healthIntervalMs: number;
  readonly scrapeIntervalMs: number;
  readonly timeoutMs: number;
  readonly lanes: { readonly prompt: Limiter; readonly suspect: Limiter };
}

export interface MonitorEvents {
  /** Whether the next check should ask for models and version too (first contact, or back from the dead). */
  needsProbe(): boolean;
  probed(findings: ProbeFindings): void;
  /** `startedAtMs` is monotonic: when the check began. */
  healthy(startedAtMs: number): void;
  /** `strikes`: consecutive failed checks, this one included. */
  unhealthy(problem: string, isTimeout: boolean, strikes: number): void;
  scraped(gauges: EngineGauges): void;
  /** `strikes`: consecutive failed scrapes. */
  scrapeFailed(problem: string, strikes: number): void;
}

const MAX_METRICS_BYTES = 16 * 1024 * 1024;

export class InstanceMonitor {
  readonly #origin: string;
  readonly #settings: MonitorSettings;
  readonly #events: MonitorEvents;
  readonly #abort = new AbortController();
  readonly #health: Periodic;
  readonly #scrape: Periodic;
  readonly #reducer = new GaugeReducer();
  #healthStrikes = 0;
  #scrapeStrikes = 0;
  #isSuspect = false;

  constructor(origin: string, settings: MonitorSettings, events: MonitorEvents) {
    this.#origin = origin;
    this.#settings = settings;
    this.#events = events;
    this.#health = new Periodic({ intervalMs: settings.healthIntervalMs, task: () => this.#guard(() => this.#checkHealth()) });
    this.#scrape = new Periodic({ intervalMs: settings.scrapeIntervalMs, task: () => this.#guard(() => this.#scrapeMetrics()) });
  }

  start(): void {
    this.#health.start(0);
    this.#scrape.start(0);
  }

  /** Checks health soon instead of at the next turn. */
  kick(): void {
    this.#health.kick();
  }

  stop(): void {
    this.#health.stop();
    this.#scrape.stop();
    this.#abort.abort();
  }

  /** Runs in the lane; after `stop` nothing is reported any more. */
  async #guard(task: () => Promise<void>): Promise<void> {
    const lane = this.#isSuspect ? this.#settings.lanes.suspect : this.#settings.lanes.prompt;
    await lane.run(async () => {
      if (!this.#abort.signal.aborted) await task();
    });
  }

  get #probeOptions(): ProbeOptions {
    const { dispatcher, headers, timeoutMs } = this.#settings;
    return { dispatcher, headers, timeoutMs, signal: this.#abort.signal };
  }

  async #checkHealth(): Promise<void> {
    const startedAtMs = performance.now();
    if (this.#events.needsProbe()) {
      const findings = await probeOrigin(this.#origin, this.#probeOptions);
      if (this.#abort.signal.aborted) return;
      if (findings.isHealthy) {
        this.#events.probed(findings);
        this.#pass(startedAtMs);
      } else this.#strike(shortProblem(findings), findings.connectFailure === 'timeout');
      return;
    }
    const problem = await checkHealth(this.#origin, this.#probeOptions);
    if (this.#abort.signal.aborted) return;
    if (problem === undefined) this.#pass(startedAtMs);
    else this.#strike(problem.text, problem.isTimeout);
  }

  #pass(startedAtMs: number): void {
    this.#healthStrikes = 0;
    this.#isSuspect = false;
    this.#events.healthy(startedAtMs);
  }

  #strike(problem: string, isTimeout: boolean): void {
    this.#healthStrikes += 1;
    this.#isSuspect = isTimeout;
    this.#events.unhealthy(problem, isTimeout, this.#healthStrikes);
  }

  async #scrapeMetrics(): Promise<void> {
    const { dispatcher, headers, timeoutMs } = this.#settings;
    let problem: string;
    try {
      const answer = await httpGet(`${this.#origin}/metrics`, { dispatcher, headers, timeoutMs, maxBytes: MAX_METRICS_BYTES, signal: this.#abort.signal });
      if (this.#abort.signal.aborted) return;
      if (answer.status === 200) {
        const page = parsePrometheusText(answer.text, { wants: isGaugeMetric });
        this.#scrapeStrikes = 0;
        this.#events.scraped(this.#reducer.reduce(page.samples, { monotonicMs: performance.now(), unixMs: Date.now() }));
        return;
      }
      problem = `GET /metrics answered ${answer.status}`;
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      problem = error instanceof PdscopeError ? error.message : describeConnectError(error).text;
    }
    this.#scrapeStrikes += 1;
    this.#events.scrapeFailed(problem, this.#scrapeStrikes);
  }
}

/** The problem without the address in front: it is shown beside the instance's name. */
function shortProblem(findings: ProbeFindings): string {
  const text = findings.problem ?? 'unhealthy';
  return text.replace(`${findings.url} cannot be reached: `, '').replace(`${findings.url} is up but not healthy: `, '').replace(`${findings.url}: `, '').replace(/\.$/, '');
}
