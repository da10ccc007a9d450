/**
 * `GET /v1/models` over the whole fleet: every instance is asked, the cards are merged by id, and a `pdscope` object on
 * each says who serves it and what differs. An instance that does not answer counts with what the fleet knows of it.
 *
 * Answers are kept for a moment per Authorization, so that a client sees only what its own key may see.
 */
import type { Instance } from '../fleet/instance.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import { ProxyError } from './proxy-error.ts';

const KEPT_MS = 2000;
const ASK_TIMEOUT_MS = 3000;
const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_KEPT = 64;

type Card = Readonly<Record<string, unknown>>;

interface Asked {
  readonly instance: Instance;
  readonly cards: readonly Card[];
  /** Status of a refusal, e.g. 401. */
  readonly refusedWith?: number;
  /** True when the cards are the fleet's knowledge, not an answer of now. */
  readonly isFromFleet: boolean;
}

export class ModelsPage {
  readonly #scheduler: LegScheduler;
  readonly #kept = new Map<string, { readonly atMs: number; readonly page: Promise<string> }>();

  constructor(scheduler: LegScheduler) {
    this.#scheduler = scheduler;
  }

  /** The list as JSON text. Rejects with ProxyError 401/403 when every instance refuses, 503 when none can tell. */
  page(authorization: string | undefined): Promise<string> {
    const key = authorization ?? '';
    const kept = this.#kept.get(key);
    const now = performance.now();
    if (kept !== undefined && now - kept.atMs < KEPT_MS) return kept.page;
    const page = this.#ask(authorization);
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    this.#kept.set(key, { atMs: now, page });
    page.catch(() => this.#kept.delete(key));
    return page;
  }

  async #ask(authorization: string | undefined): Promise<string> {
    const answers = await Promise.all(this.#scheduler.list().map((instance) => askInstance(instance, authorization)));
    const known = answers.filter(({ cards }) => cards.length > 0);
    const refusal = answers.find(({ refusedWith }) => refusedWith !== undefined);
    if (known.length === 0 && refusal?.refusedWith !== undefined) {
      const message = `${refusal.instance.name} (${refusal.instance.origin}) refused GET /v1/models with ${refusal.refusedWith}.`;
      throw new ProxyError(refusal.refusedWith, 'upstream_status', message, { instance: refusal.instance });
    }
    if (known.length === 0) {
      throw new ProxyError(503, 'no_instance', 'No instance is there to say which models it serves.', { headers: ['retry-after', '1'] });
    }
    return JSON.stringify({ object: 'list', data: merge(answers) });
  }
}

async function askInstance(instance: Instance, authorization: string | undefined): Promise<Asked> {
  try {
    const { statusCode, body } = await instance.pool.request({
      path: '/v1/models',
      method: 'GET',
      headers: authorization === undefined ? {} : { authorization },
      headersTimeout: ASK_TIMEOUT_MS,
      bodyTimeout: ASK_TIMEOUT_MS,
      signal: AbortSignal.timeout(ASK_TIMEOUT_MS),
    });
    let bytes = 0;
    const chunks: Buffer[] = [];
    for await (const chunk of body) {
      bytes += (chunk as Buffer).length;
      if (bytes > MAX_ANSWER_BYTES) throw new Error('model list too large');
      chunks.push(chunk as Buffer);
    }
    if (statusCode === 401 || statusCode === 403) return { instance, cards: [], refusedWith: statusCode, isFromFleet: false };
    const cards = statusCode === 200 ? cardsOf(JSON.parse(Buffer.concat(chunks).toString('utf8'))) : [];
    if (cards.length > 0) return { instance, cards, isFromFleet: false };
  } catch {
    // Unreachable, slow or not JSON: the fleet's health view says so; here its last knowledge stands in.
  }
  return { instance, cards: cardsFromFleet(instance), isFromFleet: true };
}

function cardsOf(answer: unknown): Card[] {
  const data = typeof answer === 'object' && answer !== null ? (answer as Card)['data'] : undefined;
  if (!Array.isArray(data)) return [];
  return data.filter((card): card is Card => typeof card === 'object' && card !== null && typeof (card as Card)['id'] === 'string');
}

function cardsFromFleet({ models, maxModelLen, addedAtUnixMs }: Instance): Card[] {
  return models.map((id, index) => ({
    id,
    object: 'model',
    created: Math.floor(addedAtUnixMs / 1000),
    owned_by: 'vllm',
    ...(index === 0 && maxModelLen !== undefined && { max_model_len: maxModelLen }),
  }));
}

/** Fields that differ from call to call without meaning anything. */
const IGNORED_DIFFERENCES = new Set(['created', 'permission']);

function merge(answers: readonly Asked[]): Card[] {
  const ids = new Set(answers.flatMap(({ cards }) => cards.map((card) => String(card['id']))));
  return [...ids].map((id) => {
    const serving = answers.flatMap((asked) => {
      const card = asked.cards.find((candidate) => candidate['id'] === id);
      return card === undefined ? [] : [{ ...asked, card }];
    });
    // The client gets its answers from decode instances, so theirs is the card to start from.
    const base = (serving.find(({ instance, isFromFleet }) => instance.role !== 'prefill' && instance.role !== 'encode' && !isFromFleet) ?? serving[0])?.card ?? { id };
    const lengths = serving.map(({ card }) => card['max_model_len']).filter((length) => typeof length === 'number');
    const missing = answers.filter((asked) => !serving.some(({ instance }) => instance === asked.instance));
    return {
      ...base,
      // A request must fit every leg.
      ...(lengths.length > 0 && { max_model_len: Math.min(...lengths) }),
      pdscope: {
        instances: serving.map(({ instance, isFromFleet }) => ({
          id: instance.id,
          name: instance.name,
          role: instance.role,
          url: instance.origin,
          ...(isFromFleet && { is_from_last_probe: true }),
        })),
        missing_on: missing.map(({ instance }) => instance.name),
        differs: differences(serving),
      },
    };
  });
}

/** Per field with more than one value: the value of each instance. */
function differences(serving: readonly { readonly instance: Instance; readonly card: Card; readonly isFromFleet: boolean }[]): Card {
  const answered = serving.filter(({ isFromFleet }) => !isFromFleet);
  const fields = new Set(answered.flatMap(({ card }) => Object.keys(card)));
  const differs: Record<string, unknown> = {};
  for (const field of fields) {
    if (IGNORED_DIFFERENCES.has(field)) continue;
    const texts = new Set(answered.map(({ card }) => JSON.stringify(card[field])));
    if (texts.size > 1) differs[field] = Object.fromEntries(answered.map(({ instance, card }) => [instance.name, card[field] ?? null]));
  }
  return differs;
}
