/** Brings about what a case is about: faults of instances, and gates that hold a leg until something has happened. */
import { ApiError } from '#engine/simulator/api-error.ts';
import type { SimInstance } from '#engine/simulator/sim-instance.ts';
import type { SimFault } from '#shared/operations.ts';
import { waitFor } from '../engine/wait-for.ts';
import type { Case } from './cases.ts';
import type { Cluster, Gate } from './cluster.ts';
import type { Mode } from './modes.ts';

export interface Arrangement {
  readonly mode: Mode;
  readonly leaving: AbortController;
  /** Whether what a leg was held for has happened. */
  readonly holding: { isOver: boolean };
}

export async function arrange(cluster: Cluster, each: Case, arrangement: Arrangement): Promise<void> {
  const { on, hold, retry } = each;
  if (hold !== undefined) cluster.setGate(on, holdGate(cluster, hold, arrangement));
  else if (on === 'render') cluster.setGate(on, failingGate(each.fault, retry !== undefined));
  else if (retry === 'on-same') cluster.setGate(on, failingGate(each.fault, true));
  else if (retry === 'on-other') cluster.setGate(on, faultOfFirst(each));
  else if (each.fault !== undefined) await cluster.of(on).setFault(each.fault, each.amount);
}

function holdGate(cluster: Cluster, hold: NonNullable<Case['hold']>, { mode: { legs }, leaving, holding }: Arrangement): Gate {
  if (hold === 'for-ever') return () => new Promise(() => undefined);
  if (hold === 'client-leaves') {
    return async (request) => {
      leaving.abort();
      await waitFor('the leg to be cancelled', () => request.abortedAtMs !== undefined);
      holding.isOver = true;
    };
  }
  const restart = restartGate(cluster, hold, legs === 'together');
  return async () => {
    await restart();
    holding.isOver = true;
  };
}

/** Holds the first leg until the other side's instance has had what is to be lost, and has restarted. */
function restartGate(cluster: Cluster, hold: 'prefill-restarts' | 'decode-restarts', isTogether: boolean): () => Promise<void> {
  let isRestarted = false;
  return async () => {
    if (isRestarted) return;
    isRestarted = true;
    if (hold === 'decode-restarts') {
      if (isTogether) await waitFor('decode to be asked', () => cluster.received('decode').length > 0);
      await cluster.of('decode').restart();
      return;
    }
    const prefill = cluster.of('prefill');
    await waitFor('prefill to be through', () => cluster.received('prefill').length > 0 && prefill.stats().running === 0 && prefill.stats().inFlight === 0);
    await prefill.restart();
  };
}

/** For what `setFault` does not reach: routes without inference, and one request of many. */
function failingGate(fault: SimFault | undefined, isOnce: boolean): Gate {
  let isOver = false;
  return () => {
    if (isOver) return Promise.resolve();
    isOver = isOnce;
    const status = fault === 'error-400' ? 400 : 500;
    return Promise.reject(fault === 'reset' ? new Error('the connection breaks') : new ApiError(status, 'SimulatedFault', 'The request failed (simulated fault)'));
  };
}

/** The instance that is asked first has the fault. */
function faultOfFirst({ fault, amount }: Case): Gate {
  let faulty: SimInstance | undefined;
  return async (_request, sim) => {
    faulty ??= sim;
    if (fault !== undefined && sim === faulty && sim.fault !== fault) await sim.setFault(fault, amount);
  };
}
