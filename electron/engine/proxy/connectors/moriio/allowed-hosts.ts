/**
 * Which engines may register, by the addresses that they name. The protocol has no authentication, and ZeroMQ does not
 * tell who sent a message: what can be held to a list is where requests and KV would go.
 */
import { BlockList, isIP } from 'node:net';
import { PdscopeError } from '#shared/errors.ts';

const HOST_NAME = /^[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_])?\.?$/u;

export class AllowedHosts {
  readonly #networks = new BlockList();
  readonly #names = new Set<string>();
  readonly #isEverybody: boolean;

  /**
   * @param entries addresses, networks (`10.0.0.0/24`) or host names, which are compared as they are written. Empty:
   * everybody. Throws PdscopeError `bad_usage`.
   */
  constructor(entries: readonly string[]) {
    this.#isEverybody = entries.length === 0;
    for (const entry of entries) this.#add(entry);
  }

  /** @param host IPv6 without brackets. */
  has(host: string): boolean {
    if (this.#isEverybody) return true;
    const family = isIP(host);
    return family === 0 ? this.#names.has(host.toLowerCase()) : this.#networks.check(host, family === 4 ? 'ipv4' : 'ipv6');
  }

  #add(entry: string): void {
    const [address = '', bits, ...rest] = entry.trim().toLowerCase().split('/');
    const family = isIP(address);
    const isName = family === 0 && bits === undefined && HOST_NAME.test(address) && !/^[\d.]+$/u.test(address);
    const prefix = bits === undefined ? (family === 4 ? 32 : 128) : /^\d{1,3}$/u.test(bits) ? Number(bits) : Number.NaN;
    if (isName) this.#names.add(address);
    else if (family !== 0 && rest.length === 0 && prefix <= (family === 4 ? 32 : 128)) this.#networks.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6');
    else throw new PdscopeError('bad_usage', `--moriio-allow: "${entry}" is no address, network or host name; write 10.0.0.7, 10.0.0.0/24, fd00::/64 or gpu7.`);
  }
}
