/** `pdscope sim`: one simulated vLLM instance, alone. */
import { Option, type Command } from 'commander';
import { SIM_TRANSFERS, type SimTransfer } from '#engine/simulator/sim-options.ts';
import { PdscopeError } from '#shared/errors.ts';
import { SIM_FAULTS, type SimFault } from '#shared/operations.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';
import type { CommandContext } from '../command-context.ts';
import { parseDurationMs } from '../config/quantities.ts';
import { EXIT_CODES_HELP } from '../exit-codes.ts';
import { decimal, portNumber, reading, wholeNumber } from './option-parsers.ts';

const HELP = `
It answers as vLLM does (models, health, metrics, chat, completions, responses, messages, tokens in and
out, render, tokenize), publishes KV events over ZMQ with a replay socket, and hands KV over as the
connector given would. Faults can be given at start.

Examples, each pair with the proxy that fits it:
  pdscope sim --role prefill --port 8100 --kv-events-port 5557
  pdscope sim --role decode --port 8200 --kv-events-port 5657 --encoding array --dp-size 2
  pdscope serve --prefill 127.0.0.1:8100 --decode 127.0.0.1:8200 --kv-events P0=tcp://127.0.0.1:5557

  pdscope sim --role prefill --port 8100 --bidirectional      (the same for decode)
  pdscope serve --connector nixl-bidirectional --prefill 127.0.0.1:8100 --decode 127.0.0.1:8200

  pdscope sim --role prefill --port 8100 --transfer nixl-push (the same for decode)
  pdscope serve --connector nixl-push --prefill 127.0.0.1:8100 --decode 127.0.0.1:8200

  pdscope sim --role prefill --port 8100 --transfer mooncake --bootstrap-port 8998
  pdscope sim --role decode --port 8200 --transfer mooncake
  pdscope serve --connector mooncake --prefill 127.0.0.1:8100 8998 --decode 127.0.0.1:8200

  pdscope serve --connector moriio --moriio-host 127.0.0.1    (instances register themselves)
  pdscope sim --role prefill --transfer moriio --moriio-proxy 127.0.0.1:36367
  pdscope sim --role decode --transfer moriio --moriio-proxy 127.0.0.1:36367

  pdscope sim --role encode --port 8300                       (encode stage before any of these)
  pdscope sim --role both --port 8400                         (serve --connector aggregated)
  pdscope sim --role decode --port 8201 --fault reset-mid-stream --fault-amount 5

Instances that are processes of their own share no store: with connector plain, and after an encode
stage, each computes what it needs. "pdscope serve --demo --connector <name>" runs them as one.

${EXIT_CODES_HELP}`;

export interface SimFlags {
  readonly role: Role;
  readonly host: string;
  readonly port: number;
  readonly kvEventsPort?: number;
  readonly replayPort?: number;
  readonly replay: boolean;
  readonly replayLayout?: 'topic' | 'bare';
  readonly replayBuffer?: number;
  readonly topic?: string;
  readonly encoding: 'array' | 'map';
  readonly hashForm: 'int' | 'bytes';
  readonly model?: string;
  readonly blockSize?: number;
  readonly blocks?: number;
  readonly dpSize?: number;
  readonly speed?: number;
  readonly seed?: number;
  readonly apiKey?: string;
  readonly profiler?: boolean;
  readonly pooling?: boolean;
  readonly lora?: readonly string[];
  readonly transfer?: SimTransfer;
  readonly kvRole?: 'kv_producer' | 'kv_consumer' | 'kv_both';
  readonly peerPort?: number;
  /** Milliseconds, as all durations. */
  readonly lease?: number;
  readonly transferTimeout?: number;
  readonly loadFailurePolicy?: 'fail' | 'recompute';
  readonly bidirectional?: boolean;
  readonly blocksTtl?: number;
  readonly recomputeThreshold?: number;
  readonly paramsInStream?: boolean;
  readonly bootstrapPort?: number;
  readonly moriioProxy?: string;
  readonly moriioMode?: 'READ' | 'WRITE';
  readonly moriioSchema?: 'v1' | 'v1b' | 'v2';
  readonly fault?: SimFault;
  readonly faultAmount?: number;
}

/** `host:port`, with IPv6 in brackets. */
function hostAndPort(text: string): string {
  if (!/^(?:\[[^\]]+\]|[^:[\]]+):\d{1,5}$/u.test(text)) throw new Error('It must be host:port, IPv6 in brackets.');
  return text;
}

/** Flags that say nothing to the transfer chosen are a mistake. Throws PdscopeError `bad_usage`. */
function checkTransferFlags(flags: SimFlags): void {
  const transfer = flags.transfer ?? (flags.role === 'encode' ? 'none' : 'nixl');
  const needs = (flag: string, isGiven: boolean, wanted: readonly SimTransfer[]): void => {
    if (!isGiven || wanted.includes(transfer)) return;
    throw new PdscopeError('bad_usage', `${flag} needs --transfer ${wanted.join(' or ')}, not ${transfer}.`);
  };
  needs('--bidirectional', flags.bidirectional === true, ['nixl']);
  needs('--blocks-ttl', flags.blocksTtl !== undefined, ['nixl']);
  needs('--recompute-threshold', flags.recomputeThreshold !== undefined, ['nixl']);
  needs('--lease', flags.lease !== undefined, ['nixl', 'nixl-push']);
  needs('--transfer-timeout', flags.transferTimeout !== undefined, ['nixl-push', 'mooncake', 'moriio']);
  needs('--bootstrap-port', flags.bootstrapPort !== undefined, ['mooncake']);
  needs('--moriio-proxy', flags.moriioProxy !== undefined, ['moriio']);
  needs('--moriio-mode', flags.moriioMode !== undefined, ['moriio']);
  needs('--moriio-schema', flags.moriioSchema !== undefined, ['moriio']);
}

/** Flags that say something about a replay socket that is not there. Throws PdscopeError `bad_usage`. */
function checkReplayFlags({ replay, replayPort, replayLayout, replayBuffer }: SimFlags): void {
  if (!replay && (replayPort ?? replayLayout ?? replayBuffer) !== undefined) {
    throw new PdscopeError('bad_usage', '--no-replay leaves no replay socket for --replay-port, --replay-layout and --replay-buffer: leave one or the other out.');
  }
}

export function addSimCommand(program: Command, { output, keepRunning }: CommandContext): void {
  const command = program
    .command('sim')
    .description('Run one simulated vLLM instance.')
    .addOption(new Option('--role <role>', 'what it serves').choices(ROLES).makeOptionMandatory())
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'HTTP port, 0 = any', portNumber, 0)
    .option('--model <name>', 'model it serves (default: sim/Qwen3-8B)')
    .optionsGroup('KV events')
    .option('--kv-events-port <number>', 'PUB port of rank 0, 0 = any (default: no events)', portNumber)
    .option('--replay-port <number>', 'port of the replay socket, 0 = any (default: any)', portNumber)
    .option('--no-replay', 'no replay socket: what a subscriber misses is lost')
    .addOption(new Option('--replay-layout <form>', 'replies with a topic frame, or without as before 2026-07 (default: topic)').choices(['topic', 'bare']))
    .option('--replay-buffer <batches>', 'batches kept for replay (default: 10000)', wholeNumber(1, 10_000_000))
    .option('--topic <text>', 'topic of the events (default: kv-events)')
    .addOption(new Option('--encoding <form>', 'how events are encoded').choices(['array', 'map']).default('map'))
    .addOption(new Option('--hash-form <form>', 'how block hashes are written').choices(['int', 'bytes']).default('int'))
    .optionsGroup('Engine')
    .option('--block-size <tokens>', 'tokens per KV block (default: 16)', wholeNumber(1, 1024))
    .option('--blocks <number>', 'KV blocks per rank (default: 2048)', wholeNumber(8, 10_000_000))
    .option('--dp-size <number>', 'data-parallel ranks (default: 1)', wholeNumber(1, 64))
    .option('--speed <factor>', 'divides all simulated times (default: 1)', decimal(0.001, 1e6))
    .option('--seed <number>', 'same seed, same behaviour (default: 1)', wholeNumber(0, 2 ** 31))
    .option('--api-key <key>', 'bearer token it asks for under /v1 and /inference')
    .option('--lora <name...>', 'adapters that it serves beside the model')
    .option('--profiler', 'a profiler is configured: /start_profile and /stop_profile exist')
    .option('--pooling', 'a pooling model: /v1/embeddings instead of generation');
  addTransferFlags(command)
    .optionsGroup('Faults')
    .addOption(new Option('--fault <fault>', 'from the start').choices(SIM_FAULTS))
    .option('--fault-amount <number>', 'delay factor (slow), chunks before the cut (reset-mid-stream), batches kept back (event-gap)', decimal(0.001, 1e6))
    .addHelpText('after', HELP)
    .action(async (flags: SimFlags) => {
      checkTransferFlags(flags);
      checkReplayFlags(flags);
      const { sim } = await import('../sim.ts');
      await sim(flags, output);
      keepRunning();
    });
}

function addTransferFlags(command: Command): Command {
  return command
    .optionsGroup('KV transfer')
    .addOption(new Option('--transfer <name>', 'kv_connector (default: nixl, none with --role encode)').choices(SIM_TRANSFERS))
    .addOption(
      new Option('--kv-role <role>', 'a leg of the other kind kills the engine (default: strict with mooncake and moriio, else kv_both)')
        .choices(['kv_producer', 'kv_consumer', 'kv_both']),
    )
    .option('--peer-port <number>', 'port of rank 0 for peers: side channel, worker, handshake; 0 = any (default: any)', portNumber)
    .option('--lease <duration>', 'nixl: how long finished prefill blocks wait (default: 30s)', reading(parseDurationMs))
    .option('--transfer-timeout <duration>', 'how long decode waits for a producer (default: 480s; moriio: 60s)', reading(parseDurationMs))
    .addOption(new Option('--load-failure-policy <policy>', 'when KV cannot be loaded (default: fail)').choices(['fail', 'recompute']))
    .option('--bidirectional', 'nixl: decode keeps its blocks for the next turn and says so (bidirectional_kv_xfer)')
    .option('--blocks-ttl <duration>', 'nixl: how long decode keeps them (default: 480s)', reading(parseDurationMs))
    .option('--recompute-threshold <tokens>', 'nixl: a turn must gain this many to be pulled (default: 64)', wholeNumber(0, 1_000_000))
    .option('--params-in-stream', 'a patched engine: kv_transfer_params on the last chunk of a stream')
    .option('--bootstrap-port <number>', 'mooncake: bootstrap server of a prefill instance, 0 = any (default: any)', portNumber)
    .option('--moriio-proxy <host:port>', 'moriio: where to register (default: nowhere)', reading(hostAndPort))
    .addOption(new Option('--moriio-mode <mode>', 'moriio: transfer mode (default: WRITE)').choices(['READ', 'WRITE']))
    .addOption(new Option('--moriio-schema <generation>', 'moriio: generation of the registration (default: v2)').choices(['v1', 'v1b', 'v2']));
}
