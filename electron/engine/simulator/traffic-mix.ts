/**
 * What simulated clients ask: mostly conversations that share a system prompt and grow turn by turn, so that prefix caches
 * have something to hit; beside them single questions, completions, tool calls, JSON answers, log probabilities and
 * reasoning, of various lengths. Some applications spoil the caches as real ones do: a clock in the system prompt, or a
 * cache salt for each tenant. The flavour adds what only some deployments see.
 */
import type { Api } from '#shared/vocabulary.ts';
import { drawMedia } from './media-parts.ts';
import type { Prng } from './prng.ts';
import { WORDS } from './words.ts';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface TrafficFlavour {
  /** Turns carry `conversation_id`, some histories are edited between turns, and fewer turns stream. Default false. */
  readonly hasConversationIds?: boolean;
  /** Some requests have one to three images, sounds or videos. Default false. */
  readonly hasMedia?: boolean;
}

export interface PlannedRequest {
  readonly api: Api;
  readonly body: Readonly<Record<string, unknown>>;
  readonly isStream: boolean;
  /** The client leaves after this long; undefined = it stays. */
  readonly abortAfterMs: number | undefined;
  /** Call with the answer's text, or with nothing when there is none. */
  readonly answered: (text: string | undefined) => void;
}

const SYSTEM_PROMPTS: readonly string[] = [
  'You are a helpful assistant for engineers who run large language models on several machines. Answer in plain words, give numbers with units, and say what you do not know. Prefer short answers. When a question is about latency, name the phase it belongs to: queue, prefill, handoff, transfer or decode.',
  'You are a careful reviewer of design documents. First restate the claim in one sentence, then list what supports it, then list what is missing, and end with one question for the author. Never praise. Keep the language of the author, and do not repeat the document.',
  'You write short stories for children. The stories take place near a river and a mountain, they have a beginning, a middle and an end, nobody is hurt, and the last sentence is calm. Use simple words and no more than two hundred of them.',
];
const OPENINGS: readonly string[] = [
  'Please explain', 'Tell me about', 'Compare', 'Give an example of', 'Describe', 'Write a short summary of', 'What is the cost of',
];
const TOOLS: readonly unknown[] = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather at a place.',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, maximum: 7 } },
        required: ['city'],
      },
    },
  },
];

const MAX_CONVERSATIONS = 32;
/** Every so many conversations, one is of an application that tells the model the time in each request. */
const STAMPED_EVERY = 6;
/** Every so many, one is of a tenant with a cache salt. */
const SALTED_EVERY = 7;
const TENANTS = ['tenant-blue', 'tenant-green'] as const;
const SHARE = {
  conversation: 0.68,
  completion: 0.16,
  stream: 0.8,
  usage: 0.35,
  abort: 0.03,
  tools: 0.05,
  json: 0.04,
  several: 0.02,
  logprobs: 0.02,
  thinking: 0.02,
  long: 0.06,
  /** Of all requests, when there is media at all. */
  media: 0.3,
  /** Of turns with a conversation id: engines say what they kept only in whole answers. */
  idStream: 0.4,
  edited: 0.08,
} as const;

interface Conversation {
  readonly id: string;
  readonly messages: ChatMessage[];
  readonly isStamped: boolean;
  readonly cacheSalt: string | undefined;
  turnsLeft: number;
  isBusy: boolean;
}

export class TrafficMix {
  readonly #prng: Prng;
  readonly #model: string | undefined;
  readonly #conversations: Conversation[] = [];
  #flavour: TrafficFlavour;
  #count = 0;

  constructor(prng: Prng, model: string | undefined, flavour: TrafficFlavour = {}) {
    this.#prng = prng;
    this.#model = model;
    this.#flavour = flavour;
  }

  /** For requests from now on. Conversations go on. */
  setFlavour(flavour: TrafficFlavour): void {
    this.#flavour = flavour;
  }

  next(): PlannedRequest {
    if (this.#flavour.hasMedia === true && this.#prng.next() < SHARE.media) return this.#media();
    const draw = this.#prng.next();
    if (draw < SHARE.conversation) return this.#turn();
    if (draw < SHARE.conversation + SHARE.completion) {
      return this.#plan('completions', { prompt: this.#text(), ...this.#length() }, () => {});
    }
    return this.#plan('chat', { messages: [{ role: 'user', content: this.#text() }], ...this.#length(), ...this.#extras() }, () => {});
  }

  #media(): PlannedRequest {
    const content = [{ type: 'text', text: this.#text() }, ...drawMedia(this.#prng, 1 + this.#prng.int(3))];
    return this.#plan('chat', { messages: [{ role: 'user', content }], ...this.#length() }, () => {});
  }

  #turn(): PlannedRequest {
    const conversation = this.#pickConversation();
    conversation.isBusy = true;
    const hasId = this.#flavour.hasConversationIds === true;
    if (hasId && this.#prng.next() < SHARE.edited) editHistory(conversation.messages, this.#prng);
    const question: ChatMessage = { role: 'user', content: this.#text() };
    const messages = [...(conversation.isStamped ? stamped(conversation.messages) : conversation.messages), question];
    const { cacheSalt } = conversation;
    const body = { ...(hasId && { conversation_id: conversation.id }), messages, ...(cacheSalt !== undefined && { cache_salt: cacheSalt }), ...this.#length() };
    return this.#plan('chat', body, (text) => {
      conversation.isBusy = false;
      conversation.turnsLeft -= 1;
      if (text !== undefined) conversation.messages.push(question, { role: 'assistant', content: text });
      if (conversation.turnsLeft <= 0) this.#conversations.splice(this.#conversations.indexOf(conversation), 1);
    }, hasId ? SHARE.idStream : SHARE.stream);
  }

  #pickConversation(): Conversation {
    const idle = this.#conversations.filter((conversation) => !conversation.isBusy);
    const isNew = idle.length === 0 || (this.#conversations.length < MAX_CONVERSATIONS && this.#prng.next() < 0.3);
    const known = isNew ? undefined : idle[this.#prng.int(idle.length)];
    if (known !== undefined) return known;
    const content = SYSTEM_PROMPTS[this.#prng.int(SYSTEM_PROMPTS.length)] ?? '';
    this.#count += 1;
    const count = this.#count;
    const fresh: Conversation = {
      id: `demo-${count}`,
      messages: [{ role: 'system', content }],
      // Blocks of conversations with ids are read back by the next turn, whose prompt must extend them.
      isStamped: count % STAMPED_EVERY === 0 && this.#flavour.hasConversationIds !== true,
      cacheSalt: count % SALTED_EVERY === 0 ? TENANTS[(count / SALTED_EVERY) % TENANTS.length] : undefined,
      turnsLeft: 2 + this.#prng.int(7),
      isBusy: false,
    };
    this.#conversations.push(fresh);
    return fresh;
  }

  #plan(
    api: 'chat' | 'completions',
    body: Readonly<Record<string, unknown>>,
    answered: PlannedRequest['answered'],
    streamShare: number = SHARE.stream,
  ): PlannedRequest {
    const isStream = this.#prng.next() < streamShare;
    return {
      api,
      isStream,
      abortAfterMs: this.#prng.next() < SHARE.abort ? 30 + this.#prng.int(1500) : undefined,
      answered,
      body: {
        ...(this.#model !== undefined && { model: this.#model }),
        ...body,
        ...(isStream && { stream: true }),
        ...(isStream && this.#prng.next() < SHARE.usage && { stream_options: { include_usage: true } }),
      },
    };
  }

  #extras(): Readonly<Record<string, unknown>> {
    const draw = this.#prng.next();
    const { tools, json, several, logprobs, thinking } = SHARE;
    const share = 1 - SHARE.conversation - SHARE.completion;
    if (draw < tools / share) return { tools: TOOLS, tool_choice: this.#prng.next() < 0.5 ? 'required' : 'auto' };
    if (draw < (tools + json) / share) return { response_format: { type: 'json_object' } };
    if (draw < (tools + json + several) / share) return { n: 2 };
    if (draw < (tools + json + several + logprobs) / share) return { logprobs: true, top_logprobs: 3 };
    if (draw < (tools + json + several + logprobs + thinking) / share) return { chat_template_kwargs: { enable_thinking: true } };
    return {};
  }

  #length(): Readonly<Record<string, unknown>> {
    return { max_tokens: 24 + Math.floor(-Math.log(1 - this.#prng.next()) * 110), temperature: 0.7 };
  }

  #text(): string {
    const isLong = this.#prng.next() < SHARE.long;
    const count = isLong ? 400 + this.#prng.int(1200) : 8 + Math.floor(-Math.log(1 - this.#prng.next()) * 40);
    const words = Array.from({ length: count }, () => WORDS[this.#prng.int(WORDS.length)] ?? 'and');
    return `${OPENINGS[this.#prng.int(OPENINGS.length)] ?? 'Tell me about'} ${words.join(' ')}.`;
  }
}

/** The system prompt begins with the time of the request, so no request shares more than the template with another. */
function stamped(messages: readonly ChatMessage[]): ChatMessage[] {
  const [system, ...rest] = messages;
  return system === undefined ? [] : [{ ...system, content: `Current time: ${new Date().toISOString().slice(0, 19)}. ${system.content}` }, ...rest];
}

/** The person rewrites the last question or shortens the last answer: the next prompt does not extend what engines have. */
function editHistory(messages: ChatMessage[], prng: Prng): void {
  const [question, answer] = messages.slice(-2);
  if (question?.role !== 'user' || answer?.role !== 'assistant') return;
  if (prng.next() < 0.5) messages[messages.length - 2] = { role: 'user', content: `Once more: ${question.content}` };
  else messages[messages.length - 1] = { role: 'assistant', content: answer.content.slice(0, Math.ceil(answer.content.length / 2)) };
}
