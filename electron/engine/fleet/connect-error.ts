/** Says in words why an instance could not be reached: refused, unknown name, timeout, TLS, or not HTTP at all. */
import { errorMessage } from '#shared/errors.ts';

export type ConnectFailure = 'refused' | 'dns' | 'timeout' | 'unreachable' | 'tls' | 'not-http' | 'reset' | 'other';

export interface DescribedError {
  readonly kind: ConnectFailure;
  /** A clause without a full stop, e.g. `connection refused: nothing listens on that port`. */
  readonly text: string;
}

const NOT_HTTP: DescribedError = { kind: 'not-http', text: 'it does not speak HTTP (wrong port?)' };

const BY_CODE: Readonly<Record<string, DescribedError>> = {
  ECONNREFUSED: { kind: 'refused', text: 'connection refused: nothing listens on that port' },
  ENOTFOUND: { kind: 'dns', text: 'the host name is not known (DNS)' },
  EAI_AGAIN: { kind: 'dns', text: 'the host name could not be looked up (DNS)' },
  ETIMEDOUT: { kind: 'timeout', text: 'no answer in time (connect)' },
  UND_ERR_CONNECT_TIMEOUT: { kind: 'timeout', text: 'no answer in time (connect)' },
  UND_ERR_HEADERS_TIMEOUT: { kind: 'timeout', text: 'connected, but no answer in time' },
  UND_ERR_BODY_TIMEOUT: { kind: 'timeout', text: 'the answer stopped midway' },
  UND_ERR_ABORTED: { kind: 'timeout', text: 'no answer in time' },
  ABORT_ERR: { kind: 'timeout', text: 'no answer in time' },
  EHOSTUNREACH: { kind: 'unreachable', text: 'no route to the host' },
  ENETUNREACH: { kind: 'unreachable', text: 'the network is unreachable' },
  EADDRNOTAVAIL: { kind: 'unreachable', text: 'the address is not available from here' },
  ECONNRESET: { kind: 'reset', text: 'the connection was reset (https:// behind an http:// address?)' },
  EPIPE: { kind: 'reset', text: 'the connection was reset' },
  UND_ERR_SOCKET: { kind: 'reset', text: 'the connection was closed before an answer' },
  EPROTO: { kind: 'tls', text: 'the TLS handshake failed' },
  ERR_SSL_WRONG_VERSION_NUMBER: { kind: 'tls', text: 'it does not speak TLS: use http:// instead of https://' },
  ERR_SSL_PACKET_LENGTH_TOO_LONG: { kind: 'tls', text: 'it does not speak TLS: use http:// instead of https://' },
  DEPTH_ZERO_SELF_SIGNED_CERT: { kind: 'tls', text: 'its certificate is self-signed: start pdscope with NODE_EXTRA_CA_CERTS set to it' },
  SELF_SIGNED_CERT_IN_CHAIN: { kind: 'tls', text: 'its certificate chain is self-signed: start pdscope with NODE_EXTRA_CA_CERTS set to it' },
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: { kind: 'tls', text: 'its certificate is signed by an unknown authority: start pdscope with NODE_EXTRA_CA_CERTS' },
  CERT_HAS_EXPIRED: { kind: 'tls', text: 'its certificate has expired' },
};

/** Describes anything a probe or scrape threw. Looks into `cause` and into the attempts of a dual-stack connect. */
export function describeConnectError(error: unknown): DescribedError {
  for (const candidate of unwrap(error)) {
    // undici's parser errors do not always carry a code.
    if (candidate instanceof Error && candidate.name === 'HTTPParserError') return NOT_HTTP;
    const code = errorCode(candidate);
    if (code === undefined) {
      if (candidate instanceof Error && (candidate.name === 'TimeoutError' || candidate.name === 'AbortError')) {
        return { kind: 'timeout', text: 'no answer in time' };
      }
      continue;
    }
    const known = BY_CODE[code];
    if (known !== undefined) return known;
    if (code.startsWith('HPE_')) return NOT_HTTP;
    if (/^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|HOSTNAME_MISMATCH)/.test(code)) return { kind: 'tls', text: `TLS: ${errorMessage(candidate)}` };
  }
  return { kind: 'other', text: errorMessage(error) };
}

function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

function* unwrap(error: unknown): Generator {
  let current: unknown = error;
  for (let depth = 0; depth < 4 && current !== undefined && current !== null; depth += 1) {
    yield current;
    if (current instanceof AggregateError) yield* current.errors;
    current = current instanceof Error ? current.cause : undefined;
  }
}
