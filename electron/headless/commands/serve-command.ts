/** `pdscope serve`: its flags, and how they meet the configuration file. */
import { Command, Option } from 'commander';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { CONNECTORS, POLICIES } from '#shared/vocabulary.ts';
import { parseKvEventsAssignment, type KvEventsAssignment } from '../config/kv-events-option.ts';
import { byInstance, parseDemoShape, parseDpSize, parseKvBytes, type DemoShape, type DpSizeAssignment, type KvBytesAssignment } from '../config/quantities.ts';
import type { ServeSettings } from '../config/resolve-serve.ts';
import { durationOf, LOG_FORMATS, LOG_LEVELS, maxBodyOf, SERVE_CONFIG_KEYS, type ServeConfig } from '../config/serve-config.ts';
import { EXIT_CODES_HELP } from '../exit-codes.ts';
import type { CommandContext } from '../command-context.ts';
import { decimal, portNumber, reading, repeated, wholeNumber } from './option-parsers.ts';
import { addReferenceFlags, fromReferenceFlags, withBootstrapPorts, withPluralFlags, type ReferenceFlags } from './reference-flags.ts';

const HELP = `
Instances may also be added in the dashboard; with none given, pdscope starts empty.
Every option but --config and those of the example proxies is a key of the YAML file too, under the same name:

  prefill: [10.0.0.1:8100]
  decode:
    - url: 10.0.0.2:8200
      name: big
      kv-events: tcp://10.0.0.2:5557,replay=tcp://10.0.0.2:5558
  connector: nixl
  idle-timeout: 2m

Environment:
  ADMIN_API_KEY   opens /instances/add and /instances/remove on the proxy port (x-api-key), and profiling from
                  other machines
  OPENAI_API_KEY  sent to instances for clients that send no Authorization
  PDSCOPE_TOKEN   a fixed, reusable token for the control port, for automation

Examples:
  pdscope serve --demo 4P4D
  pdscope serve --model meta-llama/Llama-3.1-8B --prefill p1:8100 p2:8100 --decode d1:8200 --port 8000
  pdscope serve --prefill p1:8100 --decode d1:8200 --kv-events P0=tcp://p1:5557 --kv-events D0=tcp://d1:5557,ranks=2
  pdscope serve --config cluster.yaml --log-level info --log-format json

${EXIT_CODES_HELP}`;

type KvEventsFlag = readonly KvEventsAssignment[];

/** What commander hands over; keys as it camel-cases them. */
type ServeFlags = Readonly<Record<string, unknown>> & ReferenceFlags & {
  readonly prefill?: readonly string[];
  readonly dpSize?: readonly DpSizeAssignment[];
  readonly kvBytesPerToken?: readonly KvBytesAssignment[];
  readonly config?: string;
  readonly kvEvents?: KvEventsFlag;
  readonly demo?: boolean | DemoShape;
};

/** The command with all its flags, no action. */
function describeServe(command: Command): Command {
  const address = '<address...>';
  command
    .description('Run the proxy, the KV-event subscriber and the dashboard.')
    .optionsGroup('Instances')
    .option(`--prefill ${address}`, 'prefill instances, host:port or http(s)://host:port; each may be followed by its Mooncake bootstrap port')
    .option(`--decode ${address}`, 'decode instances')
    .option(`--encode ${address}`, 'encode instances')
    .option(`--both ${address}`, 'instances that take prefill and decode legs')
    .option('--kv-events <instance=endpoint>', 'KV events of an instance (by name or address): P0=tcp://host:5557[,replay=...,topic=...,ranks=N,bind]; repeatable', repeated(parseKvEventsAssignment))
    .option('--dp-size <instance=ranks>', 'data-parallel ranks of an instance (by name or address; default: discovered); repeatable', repeated(parseDpSize))
    .option('--kv-bytes-per-token <instance=bytes>', 'KV cache bytes of one token on an instance, for sizes (default: from /server_info, else measured by NIXL transfers); repeatable', repeated(parseKvBytes))
    .option('--model <name>', 'model that the instances must serve')
    .optionsGroup('Proxy')
    .option('--host <address>', 'address of the proxy (default: 127.0.0.1)')
    .option('--port <number>', 'port of the proxy, 0 = any (default: 8000)', portNumber)
    .addOption(new Option('--connector <name>', 'P/D protocol (default: nixl)').choices(CONNECTORS))
    .option('--bootstrap-port <number>', 'mooncake: bootstrap port of prefill instances that name none (default: 8998)', wholeNumber(1, 65_535))
    .option('--moriio-host <address>', 'moriio: where engines register (default: 0.0.0.0; of the demo: 127.0.0.1)')
    .option('--moriio-port <number>', 'moriio: port of the registration socket (default: 36367)', portNumber)
    .option('--moriio-allow <network...>', 'moriio: addresses, networks (10.0.0.0/24) and names of engines that may register (default: all)')
    .addOption(new Option('--moriio-mode <mode>', 'moriio: transfer mode (default: that of the first instance)').choices(['READ', 'WRITE']))
    .option('--conversation-ttl <duration>', 'nixl-bidirectional: how long blocks of a conversation are reused (default: 450s)', reading(durationOf['conversation-ttl']))
    .option('--keep-conversations <number>', 'nixl-bidirectional: conversations remembered (default: 10000)', wholeNumber(1, 1_000_000))
    .option('--reemit-streams', 'nixl-bidirectional: run streaming turns without stream, and send them on as one')
    .option('--no-block-fatal', 'send legs whose parameters are known to kill or hang an engine')
    .option('--no-encode-stage', 'send no encode legs')
    .addOption(new Option('--policy <name>', 'how instances are chosen (default: least-in-flight)').choices(POLICIES))
    .option('--prefill-skip-tokens <number>', 'leave prefill out when a decode instance holds all but fewer tokens of the prompt, by its KV events (default: never)', wholeNumber(0, 1_000_000))
    .option('--no-tokenize-for-routing', 'prefix-aware: do not ask instances (POST /tokenize) for tokens of prompts sent as text')
    .option('--tokenize-deadline <duration>', 'prefix-aware: longest wait for these tokens (default: 20ms)', reading(durationOf['tokenize-deadline']))
    .option('--connect-timeout <duration>', 'for a connection to an instance (default: 5s)', reading(durationOf['connect-timeout']))
    .option('--headers-timeout <duration>', 'from a request to its response headers (default: 10m)', reading(durationOf['headers-timeout']))
    .option('--idle-timeout <duration>', 'between two chunks (default: 5m)', reading(durationOf['idle-timeout']))
    .option('--max-body <size>', 'largest request body (default: 64MiB)', reading(maxBodyOf))
    .option('--max-retries <number>', 'attempts on other instances (default: 2)', wholeNumber(0, 16))
    .optionsGroup('Recording')
    .option('--capture', 'keep request and response bodies from the start')
    .option('--report-cache', 'ask engines to publish blocks found in their cache, too (kv_cache_report_mode)')
    .option('--no-explain-misses', 'keep no prompts to tell why they missed')
    .option('--keep-requests <number>', 'request records (default: 10000)', wholeNumber(10, 1_000_000))
    .option('--keep-kv-events <number>', 'KV events (default: 50000)', wholeNumber(10, 5_000_000))
    .option('--keep-blocks <number>', 'resident blocks (default: 1000000)', wholeNumber(1000, 50_000_000))
    .optionsGroup('Demo')
    .option('--demo [shape]', 'simulated cluster with traffic, e.g. 4P4D or 1E2P2D (default shape: 2P3D)', reading(parseDemoShape))
    .option('--demo-rate <number>', 'requests per second of the demo (default: 6)', decimal(0, 2000))
    .optionsGroup('Control port')
    .option('--control-port <number>', 'port of the dashboard, 0 = any (default: 7080)', portNumber)
    .option('--control-host <address>', 'address of the dashboard (default: 127.0.0.1)')
    .option('--allow-remote-control', 'let --control-host be other than loopback')
    .option('--no-open', 'open no browser')
    .optionsGroup('General')
    .option('--config <file>', 'YAML file; flags win over it')
    .addOption(new Option('--log-level <level>', 'least severe that is logged to stderr (default: warn)').choices(LOG_LEVELS))
    .addOption(new Option('--log-format <format>', 'default: pretty on a terminal, else json').choices(LOG_FORMATS))
    .addHelpText('after', HELP);
  return addReferenceFlags(command);
}

/** Reads flags and configuration file into settings. Throws PdscopeError `bad_usage`, `bad_config`. */
async function settingsOf(flags: ServeFlags, env: NodeJS.ProcessEnv): Promise<ServeSettings> {
  const [{ resolveServe }, fromFile] = await Promise.all([import('../config/resolve-serve.ts'), readFile(flags.config)]);
  return resolveServe({ ...fromFile, ...flagsToConfig(flags) }, env);
}

async function readFile(path: string | undefined): Promise<ServeConfig> {
  if (path === undefined) return {};
  const { readConfigFile } = await import('../config/config-file.ts');
  return readConfigFile(path);
}

/** Only what was given: an absent flag must not hide the file's value. */
function flagsToConfig(flags: ServeFlags): ServeConfig {
  const config: Record<string, unknown> = {};
  for (const key of SERVE_CONFIG_KEYS) {
    const value = flags[key.replace(/-./gu, (pair) => pair.slice(1).toUpperCase())];
    if (value !== undefined) config[key] = value;
  }
  for (const role of ['encode', 'decode', 'both']) {
    const urls = config[role];
    if (Array.isArray(urls)) config[role] = urls.map((url: string) => ({ url }));
  }
  if (flags.prefill !== undefined) {
    const { prefill, isMooncake } = withBootstrapPorts(flags.prefill);
    config['prefill'] = prefill;
    if (isMooncake) config['connector'] ??= 'mooncake';
  }
  if (flags.kvEvents !== undefined) config['kv-events'] = byInstance('kv-events', flags.kvEvents.map(({ instance, kvEvents }) => [instance, kvEvents]));
  if (flags.dpSize !== undefined) config['dp-size'] = byInstance('dp-size', flags.dpSize.map(({ instance, ranks }) => [instance, ranks]));
  if (flags.kvBytesPerToken !== undefined) config['kv-bytes-per-token'] = byInstance('kv-bytes-per-token', flags.kvBytesPerToken.map(({ instance, bytes }) => [instance, bytes]));
  // commander gives every `--no-x` the default true; only a given one says something.
  for (const key of ['open', 'block-fatal', 'encode-stage', 'explain-misses', 'tokenize-for-routing']) if (config[key] === true) delete config[key];
  return { ...fromReferenceFlags(flags), ...config };
}

/** Settings from the arguments after `serve`, for hosts with their own command line. Throws PdscopeError. */
export async function parseServeArgs(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ServeSettings> {
  // The caller shows what is thrown; commander would print it as well.
  const command = describeServe(new Command('serve')).exitOverride().configureOutput({ writeErr: () => undefined });
  try {
    command.parse(withPluralFlags(args), { from: 'user' });
  } catch (error) {
    throw new PdscopeError('bad_usage', errorMessage(error).replace(/^error: /u, ''), { cause: error });
  }
  return settingsOf(command.opts<ServeFlags>(), env);
}

export function addServeCommand(program: Command, { output, keepRunning }: CommandContext): void {
  describeServe(program.command('serve')).action(async (flags: ServeFlags) => {
    const settings = await settingsOf(flags, process.env);
    const { serve } = await import('../serve.ts');
    await serve(settings, output);
    keepRunning();
  });
}
