/** Runs `pdscope sim`. */
import { startSimInstance, type SimInstance, type SimInstanceOptions, type SimKvEventsOptions } from '#engine/simulator/sim-instance.ts';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { ProgramOutput } from './command-context.ts';
import type { SimFlags } from './commands/sim-command.ts';
import { stopOnSignals } from './shutdown.ts';

/** Starts the instance, prints where it is, and stops on signals. Throws PdscopeError `port_in_use`. */
export async function sim(flags: SimFlags, output: ProgramOutput): Promise<void> {
  const instance = await start(flags);
  if (flags.fault !== undefined) await instance.setFault(flags.fault, flags.faultAmount);
  stopOnSignals({
    say: (text) => output.err(`${text}\n`),
    announce: () => output.err(`pdscope: stopping the simulated ${instance.role}, ${instance.stats().inFlight} requests in flight\n`),
    close: () => instance.close(),
  });
  output.out(simText(instance, flags));
}

async function start(flags: SimFlags): Promise<SimInstance> {
  const { role, host, port, model, blockSize, blocks, dpSize, speed, seed, apiKey } = flags;
  try {
    return await startSimInstance({
      role,
      host,
      port,
      ...(model !== undefined && { model }),
      ...(blockSize !== undefined && { blockSize }),
      ...(blocks !== undefined && { blocks }),
      ...(dpSize !== undefined && { dpSize }),
      ...(speed !== undefined && { speed }),
      ...(seed !== undefined && { seed }),
      ...(apiKey !== undefined && { apiKey }),
      ...transferOptions(flags),
      ...(flags.kvEventsPort !== undefined && { kvEvents: kvEventsOptions(flags, flags.kvEventsPort) }),
    });
  } catch (error) {
    if (!isPortTaken(error)) throw error;
    throw new PdscopeError('port_in_use', `A port of the simulated instance is taken: ${errorMessage(error)}`, { cause: error });
  }
}

function kvEventsOptions({ replayPort, replay, replayLayout, replayBuffer, topic, encoding, hashForm }: SimFlags, port: number): SimKvEventsOptions {
  return {
    port, encoding, hashForm, replay,
    ...(topic !== undefined && { topic }),
    ...(replayPort !== undefined && { replayPort }),
    ...(replayLayout !== undefined && { replayLayout }),
    ...(replayBuffer !== undefined && { bufferSteps: replayBuffer }),
  };
}

/** Only what was given: the defaults are the simulator's. */
function transferOptions(flags: SimFlags): Partial<SimInstanceOptions> {
  const { transfer, kvRole, peerPort, lease, transferTimeout, loadFailurePolicy, bidirectional, blocksTtl } = flags;
  const { recomputeThreshold, paramsInStream, bootstrapPort, moriioProxy, moriioMode, moriioSchema, profiler, pooling, lora } = flags;
  return {
    ...(transfer !== undefined && { transfer }),
    ...(kvRole !== undefined && { kvRole }),
    ...(peerPort !== undefined && { peerPort }),
    ...(lease !== undefined && { leaseMs: lease }),
    ...(transferTimeout !== undefined && { transferTimeoutMs: transferTimeout }),
    ...(loadFailurePolicy !== undefined && { kvLoadFailurePolicy: loadFailurePolicy }),
    ...(bidirectional !== undefined && { bidirectional }),
    ...(blocksTtl !== undefined && { decoderBlocksTtlMs: blocksTtl }),
    ...(recomputeThreshold !== undefined && { recomputeThreshold }),
    ...(paramsInStream !== undefined && { paramsInStream }),
    ...(bootstrapPort !== undefined && { bootstrapPort }),
    ...(profiler !== undefined && { profiler }),
    ...(pooling !== undefined && { pooling }),
    ...(lora !== undefined && { loras: lora }),
    moriio: {
      ...(moriioProxy !== undefined && { proxy: moriioProxy }),
      ...(moriioMode !== undefined && { mode: moriioMode }),
      ...(moriioSchema !== undefined && { schema: moriioSchema }),
    },
  };
}

/** The simulator wraps the system's error; ZMQ has its own words for it. */
function isPortTaken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE' || isPortTaken(error.cause);
}

function simText(instance: SimInstance, { fault, moriioProxy }: SimFlags): string {
  const { role, url, model, kvEvents, bootstrapUrl, zmqAddress } = instance;
  const ranks = kvEvents !== undefined && kvEvents.ranks > 1 ? ` and the ${kvEvents.ranks - 1} ports after it` : '';
  const lines = [
    `pdscope: simulated ${role} instance of ${model} at ${url}`,
    ...(kvEvents === undefined ? [] : [`  KV events  ${kvEvents.endpoint}${ranks}, topic "${kvEvents.topic}"`]),
    ...(kvEvents?.replayEndpoint === undefined ? [] : [`  replay     ${kvEvents.replayEndpoint}`]),
    ...(bootstrapUrl === undefined ? [] : [`  bootstrap  ${bootstrapUrl}`]),
    ...(zmqAddress === undefined ? [] : [`  zmq        ${zmqAddress}`]),
    ...(moriioProxy === undefined ? [] : [`  registers  at ${moriioProxy}`]),
    ...(fault === undefined || fault === 'none' ? [] : [`  fault      ${fault}`]),
    '  stop       Ctrl+C',
  ];
  return `${lines.join('\n')}\n`;
}
