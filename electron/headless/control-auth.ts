/**
 * Who has signed in to the control port.
 *
 * A login token opens one browser session: it travels in a URL, which histories and shells keep, so it is void once
 * used. The API token is for programs (`Authorization: Bearer`), never travels in a URL, and lasts as long as the
 * process. A fixed token (PDSCOPE_TOKEN) is both and can be used again, for automation that cannot read the terminal.
 * Nothing secret is kept: only SHA-256 digests, which are also what is compared, in constant time.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** Tokens and sessions remembered at most; the oldest go first. */
const MAX_LOGIN_TOKENS = 64;
const MAX_SESSIONS = 256;

export type LoginOutcome = { readonly outcome: 'ok'; readonly sessionId: string } | { readonly outcome: 'used' | 'unknown' };

export class ControlAuth {
  /** For programs; the fixed token where there is one. */
  readonly apiToken: string;
  readonly #apiDigest: Buffer;
  readonly #hasFixedToken: boolean;
  readonly #loginTokens: { readonly digest: Buffer; isUsed: boolean }[] = [];
  readonly #sessions = new Set<string>();

  constructor(options: { readonly fixedToken?: string } = {}) {
    this.#hasFixedToken = options.fixedToken !== undefined;
    this.apiToken = options.fixedToken ?? randomToken();
    this.#apiDigest = digestOf(this.apiToken);
  }

  /** A new token for one login; the fixed token where there is one. */
  issueLoginToken(): string {
    if (this.#hasFixedToken) return this.apiToken;
    const token = randomToken();
    this.#loginTokens.push({ digest: digestOf(token), isUsed: false });
    if (this.#loginTokens.length > MAX_LOGIN_TOKENS) this.#loginTokens.shift();
    return token;
  }

  /** Exchanges a login token for a new session. */
  login(token: string): LoginOutcome {
    const digest = digestOf(token);
    if (this.#hasFixedToken && timingSafeEqual(digest, this.#apiDigest)) return this.#openSession();
    // All are compared, so that the time taken does not tell which one was close.
    const found = this.#loginTokens.filter((known) => timingSafeEqual(known.digest, digest)).at(0);
    if (found === undefined) return { outcome: 'unknown' };
    if (found.isUsed) return { outcome: 'used' };
    found.isUsed = true;
    return this.#openSession();
  }

  /** Whether a cookie's value is a live session. */
  hasSession(sessionId: string | undefined): boolean {
    return sessionId !== undefined && this.#sessions.has(digestOf(sessionId).toString('hex'));
  }

  /** Whether an `Authorization` header carries the API token. */
  hasApiToken(authorization: string | undefined): boolean {
    const match = /^Bearer ([\x21-\x7e]{1,1024})$/iu.exec(authorization ?? '');
    return match?.[1] !== undefined && timingSafeEqual(digestOf(match[1]), this.#apiDigest);
  }

  #openSession(): LoginOutcome {
    const sessionId = randomToken();
    this.#sessions.add(digestOf(sessionId).toString('hex'));
    for (const oldest of this.#sessions) {
      if (this.#sessions.size <= MAX_SESSIONS) break;
      this.#sessions.delete(oldest);
    }
    return { outcome: 'ok', sessionId };
  }
}

/** 256 random bits, safe in URLs and cookies. */
function randomToken(): string {
  return randomBytes(32).toString('base64url');
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
