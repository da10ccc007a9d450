/**
 * Command lines of vLLM's example proxies, accepted as they are. Each tells its protocol by its own flags, so the
 * connector is inferred unless --connector says otherwise:
 *   mooncake_connector_proxy.py   --prefill URL [PORT|none], repeated       mooncake
 *   disagg_proxy_multiturn.py     --prefiller-hosts/-ports, --decoder-...   nixl-bidirectional (without conversation ids: nixl)
 *   disagg_epd_proxy.py           --encode-servers-urls, ...                nixl; with prefill disabled, aggregated
 * toy_proxy_server.py of the NIXL tests has the flags of the multi-turn proxy. disagg_proxy_demo.py and the MoRIIO toy
 * proxy use flags that pdscope has anyway.
 */
import { Option, type Command } from 'commander';
import { PdscopeError } from '#shared/errors.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import { reading, wholeNumber } from './option-parsers.ts';

/** What commander hands over of them. */
export interface ReferenceFlags {
  readonly prefillerHosts?: readonly string[];
  readonly prefillerPorts?: readonly number[];
  readonly decoderHosts?: readonly string[];
  readonly decoderPorts?: readonly number[];
  readonly encodeServersUrls?: string;
  readonly prefillServersUrls?: string;
  readonly decodeServersUrls?: string;
  readonly decodeRetries?: number;
  readonly logRequests?: boolean;
  readonly ecConsumerZmqAddrs?: string;
  readonly ecConsumerDpSize?: string;
}

/** The reference's own defaults when only one side is given. */
const PREFILLER_DEFAULT = { host: 'localhost', port: 8100 };
const DECODER_DEFAULT = { host: 'localhost', port: 8200 };
/** Values of --prefill-servers-urls that leave the prefill stage out. */
const DISABLED = new Set(['disable', 'none', '']);
const PORT = /^\d{1,5}$/u;

export function addReferenceFlags(command: Command): Command {
  const port = wholeNumber(1, 65_535);
  const ports = (text: string, previous: readonly number[] | undefined): readonly number[] => [...(previous ?? []), port(text)];
  command.optionsGroup("Flags of vLLM's example proxies").option('--prefiller-hosts <host...>', 'hosts of prefill instances, with --prefiller-ports (multi-turn proxy)');
  command.addOption(new Option('--prefiller-ports <port...>', 'their ports').argParser(ports));
  command.option('--decoder-hosts <host...>', 'hosts of decode instances, with --decoder-ports');
  command.addOption(new Option('--decoder-ports <port...>', 'their ports').argParser(ports));
  command
    .option('--encode-servers-urls <urls>', 'encode instances, separated by commas (EPD proxy)')
    .option('--prefill-servers-urls <urls>', 'prefill instances, or "disable" (decode instances then prefill too)')
    .option('--decode-servers-urls <urls>', 'decode instances')
    .option('--decode-retries <number>', 'as --max-retries', reading((text) => wholeNumber(0, 16)(text)))
    .addOption(new Option('--no-rewrite').hideHelp())
    .addOption(new Option('--log-requests').hideHelp())
    .addOption(new Option('--ec-consumer-zmq-addrs <addresses>').hideHelp())
    .addOption(new Option('--ec-consumer-dp-size <number>').hideHelp());
  return command;
}

/** Spellings of the references that commander would not know: singular forms of the plural flags. */
export function withPluralFlags(args: readonly string[]): string[] {
  return args.map((arg) => arg.replace(/^--(prefiller|decoder)-(host|port)(?=$|=)/u, '--$1-$2s'));
}

/** The configuration that the flags stand for. Throws PdscopeError `bad_usage`. */
export function fromReferenceFlags(flags: ReferenceFlags): ServeConfig {
  const { decodeRetries, logRequests, ecConsumerZmqAddrs, ecConsumerDpSize } = flags;
  if (ecConsumerZmqAddrs !== undefined && ecConsumerZmqAddrs !== '') {
    throw new PdscopeError('bad_usage', '--ec-consumer-zmq-addrs: pushing encoder output to a chosen consumer is not supported; leave it out, and instances find encoder output by content.');
  }
  if (ecConsumerDpSize !== undefined && ecConsumerDpSize !== '1') {
    throw new PdscopeError('bad_usage', '--ec-consumer-dp-size: use --dp-size <instance>=<ranks> for data-parallel instances.');
  }
  return {
    ...fromHostsAndPorts(flags),
    ...fromUrlLists(flags),
    ...(decodeRetries !== undefined && { 'max-retries': decodeRetries }),
    ...(logRequests === true && { 'log-level': 'debug' }),
  };
}

function fromHostsAndPorts({ prefillerHosts, prefillerPorts, decoderHosts, decoderPorts }: ReferenceFlags): ServeConfig {
  if ([prefillerHosts, prefillerPorts, decoderHosts, decoderPorts].every((given) => given === undefined)) return {};
  return {
    connector: 'nixl-bidirectional',
    prefill: paired('prefiller', prefillerHosts ?? [PREFILLER_DEFAULT.host], prefillerPorts ?? [PREFILLER_DEFAULT.port]),
    decode: paired('decoder', decoderHosts ?? [DECODER_DEFAULT.host], decoderPorts ?? [DECODER_DEFAULT.port]),
  };
}

function paired(what: string, hosts: readonly string[], ports: readonly number[]): { readonly url: string }[] {
  if (hosts.length !== ports.length) {
    throw new PdscopeError('bad_usage', `--${what}-hosts and --${what}-ports must be of equal number: ${hosts.length} and ${ports.length} were given.`);
  }
  return hosts.map((host, index) => ({ url: `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${ports[index] ?? ''}` }));
}

function fromUrlLists({ encodeServersUrls, prefillServersUrls, decodeServersUrls }: ReferenceFlags): ServeConfig {
  if (encodeServersUrls === undefined && prefillServersUrls === undefined && decodeServersUrls === undefined) return {};
  const decode = listed(decodeServersUrls);
  if (decode.length === 0) throw new PdscopeError('bad_usage', '--decode-servers-urls must name at least one instance.');
  const encode = listed(encodeServersUrls);
  // Left out is the same as disabled in effect: there is nobody to prefill but the decode instances.
  const isDisabled = DISABLED.has((prefillServersUrls ?? '').trim().toLowerCase());
  return {
    ...(encode.length > 0 && { encode }),
    ...(isDisabled ? { connector: 'aggregated', both: decode } : { connector: 'nixl', prefill: listed(prefillServersUrls), decode }),
  };
}

function listed(urls: string | undefined): { readonly url: string }[] {
  return (urls ?? '').split(',').map((url) => url.trim()).filter((url) => url !== '').map((url) => ({ url }));
}

export interface PrefillAddresses {
  readonly prefill: readonly { readonly url: string; readonly 'bootstrap-port'?: number }[];
  /** Whether any address was followed by a bootstrap port or `none`, which only the Mooncake proxy takes. */
  readonly isMooncake: boolean;
}

/** `--prefill URL PORT --prefill URL none --prefill URL`: addresses, each with the bootstrap port that follows it. */
export function withBootstrapPorts(words: readonly string[]): PrefillAddresses {
  const prefill: { url: string; 'bootstrap-port'?: number }[] = [];
  let isMooncake = false;
  let isPortAllowed = false;
  for (const word of words) {
    const isNone = word.toLowerCase() === 'none';
    if (!isNone && !PORT.test(word)) {
      prefill.push({ url: word });
      isPortAllowed = true;
      continue;
    }
    const last = prefill.at(-1);
    if (last === undefined || !isPortAllowed) throw new PdscopeError('bad_usage', `--prefill: "${word}" stands where an address was expected; write --prefill <address> [bootstrap port].`);
    isMooncake = true;
    isPortAllowed = false;
    if (isNone) continue;
    const port = Number(word);
    if (port < 1 || port > 65_535) throw new PdscopeError('bad_usage', `--prefill ${last.url}: the bootstrap port must be 1 to 65535, not ${word}.`);
    last['bootstrap-port'] = port;
  }
  return { prefill, isMooncake };
}
