/** `pdscope sim`: one simulated vLLM instance, alone. */
import { Option, type Command } from 'commander';
import { SIM_FAULTS, type SimFault } from '#shared/operations.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';
import type { CommandContext } from '../command-context.ts';
import { EXIT_CODES_HELP } from '../exit-codes.ts';
import { decimal, portNumber, wholeNumber } from './option-parsers.ts';

const HELP = `
It answers as vLLM does (models, health, metrics, completions, chat, tokenize), publishes KV events
over ZMQ with a replay socket, and hands KV over as NIXL would. Faults can be given at start.

Examples:
  pdscope sim --role prefill --port 8100 --kv-events-port 5557
  pdscope sim --role decode --port 8200 --kv-events-port 5657 --encoding array --dp-size 2
  pdscope sim --role decode --port 8201 --fault reset-mid-stream --fault-amount 5
  pdscope serve --prefill 127.0.0.1:8100 --decode 127.0.0.1:8200 --kv-events P0=tcp://127.0.0.1:5557

${EXIT_CODES_HELP}`;

export interface SimFlags {
  readonly role: Role;
  readonly host: string;
  readonly port: number;
  readonly kvEventsPort?: number;
  readonly replayPort?: number;
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
  readonly fault?: SimFault;
  readonly faultAmount?: number;
}

export function addSimCommand(program: Command, { output, keepRunning }: CommandContext): void {
  program
    .command('sim')
    .description('Run one simulated vLLM instance.')
    .addOption(new Option('--role <role>', 'what it serves').choices(ROLES).makeOptionMandatory())
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'HTTP port, 0 = any', portNumber, 0)
    .option('--model <name>', 'model it serves (default: sim/Qwen3-8B)')
    .optionsGroup('KV events')
    .option('--kv-events-port <number>', 'PUB port of rank 0, 0 = any (default: no events)', portNumber)
    .option('--replay-port <number>', 'port of the replay socket, 0 = any (default: any)', portNumber)
    .option('--topic <text>', 'topic of the events (default: kv-events)')
    .addOption(new Option('--encoding <form>', 'how events are encoded').choices(['array', 'map']).default('map'))
    .addOption(new Option('--hash-form <form>', 'how block hashes are written').choices(['int', 'bytes']).default('int'))
    .optionsGroup('Engine')
    .option('--block-size <tokens>', 'tokens per KV block (default: 16)', wholeNumber(1, 1024))
    .option('--blocks <number>', 'KV blocks per rank (default: 2048)', wholeNumber(8, 10_000_000))
    .option('--dp-size <number>', 'data-parallel ranks (default: 1)', wholeNumber(1, 64))
    .option('--speed <factor>', 'divides all simulated times (default: 1)', decimal(0.001, 1e6))
    .option('--seed <number>', 'same seed, same behaviour (default: 1)', wholeNumber(0, 2 ** 31))
    .option('--api-key <key>', 'bearer token it asks for under /v1')
    .optionsGroup('Faults')
    .addOption(new Option('--fault <fault>', 'from the start').choices(SIM_FAULTS))
    .option('--fault-amount <number>', 'delay factor (slow), chunks before the cut (reset-mid-stream), batches kept back (event-gap)', decimal(0.001, 1e6))
    .addHelpText('after', HELP)
    .action(async (flags: SimFlags) => {
      const { sim } = await import('../sim.ts');
      await sim(flags, output);
      keepRunning();
    });
}
