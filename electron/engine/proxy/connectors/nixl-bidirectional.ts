/**
 * NIXL bidirectional (multi-turn, `bidirectional_kv_xfer`): as nixl, and in a conversation prefill also reads the blocks
 * that the decode instance kept of the last turn (vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py).
 *
 * The decode answer's kv_transfer_params are kept per conversation and given to the next turn's prefill leg, once, and
 * only when that prompt extends what was sent and answered (conversation/turn.ts). A prefill that fails with them runs
 * again without. Engines say what they hold in whole answers only; streams of conversations can be made from whole
 * answers (`reemitStreams`). Requests without a conversation are served by nixl's own code.
 */
import { randomUUID } from 'node:crypto';
import type { ConnectorStatus } from '#shared/protocol.ts';
import type { Instance } from '../../fleet/instance.ts';
import { jsonKey, lastValueOf, memberValue, scanMembers } from '../json-members.ts';
import { NEVER_SENT, ProxyError } from '../proxy-error.ts';
import { reemitAsStream } from '../reemit-stream.ts';
import type { Answer, Connector, ConnectorServices, LegContext, LegEnd, LegTarget } from './connector.ts';
import { readStreamedAnswer, readWholeAnswer, type Answered } from './conversation/answered.ts';
import { ConversationCache, type Begun, type TakenBlocks } from './conversation/conversation-cache.ts';
import { conversationIdOf, withoutConversationId, withoutStream } from './conversation/conversation-id.ts';
import { conversationStatus, type TurnCounts } from './conversation/conversation-status.ts';
import { readHeldParams, type HeldParams } from './conversation/held-params.ts';
import { describeSent, keepTurn, type Refusal, type SentTurn } from './conversation/turn.ts';
import { beyondPromptVerdict, declinedVerdict, notUsedVerdict, refusalVerdict } from './conversation/verdicts.ts';
import {
  decodeLeg, decodeWithoutHandoff, decodeWithoutPrefill, handoffOf, prefillAnywhere, prefillOnce, reasonAgainstPull,
  type Handoff, type PrefillDone, type PullRequest,
} from './nixl-pull.ts';
import { runNixl } from './nixl.ts';
import { correctRemoteHost, remoteHostVerdict } from './remote-host.ts';
import { KV_TRANSFER_PARAMS } from './transfer-params.ts';

/** A whole answer beyond this is not compared. */
const WHOLE_TAIL_BYTES = 1024 * 1024;
/** Of streams of an instance that has not been seen to end them with params: enough for the ids of 128,000 tokens. */
const PROBE_TAIL_BYTES = 96 * 1024;
/** Reading chunks must not be compressed. */
const UNCOMPRESSED = { 'accept-encoding': 'identity' };
const PARAMS_KEY = jsonKey(KV_TRANSFER_PARAMS);
/** Tokens that a pull must gain, by default (`kv_recompute_threshold`). */
const RECOMPUTE_THRESHOLD = 64;
const DEFAULT_BLOCK_SIZE = 16;

export function createNixlBidirectional(services: ConnectorServices): Connector {
  return new NixlBidirectional(services);
}

/** One turn on its way. */
interface Turn {
  readonly id: string;
  readonly pull: PullRequest;
  readonly sent: SentTurn;
  readonly begun: Begun;
}

class NixlBidirectional implements Connector {
  readonly name = 'nixl-bidirectional';
  readonly legs = ['prefill', 'decode'] as const;
  readonly #services: ConnectorServices;
  readonly #cache: ConversationCache;
  readonly #counts: TurnCounts = { declined: 0, notRead: 0, wholeAnswers: 0, wholeAnswersWithParams: 0, streams: 0, streamsWithParams: 0, reemitted: 0 };
  /** Requests that began once: `run` is called again after a failure. */
  readonly #begun = new WeakSet<object>();
  /** What tells one life of an engine from the next, by where it was seen: in answers, or by the fleet's probes. */
  readonly #lives = { answered: new WeakMap<Instance, string>(), announced: new WeakMap<Instance, string>(), version: new WeakMap<Instance, string>() };
  readonly #streamsParams = new WeakSet<Instance>();
  readonly #stopListening: readonly (() => void)[];

  constructor(services: ConnectorServices) {
    this.#services = services;
    const { conversations, conversationTtlMs } = services.options;
    this.#cache = new ConversationCache({ capacity: conversations, ttlMs: conversationTtlMs });
    this.#stopListening = [
      services.fleet.onRemoved((instance) => this.#cache.drop(instance, `${instance.name} left`)),
      services.fleet.onChanged((instance) => this.#onChanged(instance)),
    ];
  }

  run(context: LegContext): Promise<Answer> {
    const id = conversationIdOf(context.request);
    return id === undefined ? runNixl(context) : this.#runTurn(context, id);
  }

  status(): ConnectorStatus {
    return conversationStatus(this.#cache, this.#counts, this.#services.settings().reemitStreams);
  }

  /** In the names of vLLM's multi-turn example proxy; its second number counts since its last answer, ours since the start. */
  healthFields(): Readonly<Record<string, number>> {
    return { cached_conversations: this.#cache.size, evicted_stale: this.#cache.counts.expired };
  }

  close(): Promise<void> {
    for (const stop of this.#stopListening) stop();
    return Promise.resolve();
  }

  async #runTurn(context: LegContext, id: string): Promise<Answer> {
    const pull = withoutConversationId(context.request);
    const reason = reasonAgainstPull(pull.request);
    if (reason !== undefined) return decodeWithoutPrefill(context, pull, reason);
    const sent = describeSent(pull.request);
    const turn: Turn = { id, pull, sent, begun: this.#begin(context, id, sent) };
    const prefill = await this.#prefill(context, turn);
    const handoff = handoffOf(context, prefill);
    if (handoff === undefined) {
      this.#cache.note(id, 'not kept: no handoff, the prefill answer had no kv_transfer_params');
      return decodeWithoutHandoff(context, pull, prefill);
    }
    const { last } = turn.begun;
    const target = context.choose('decode', { ...(last !== undefined && { prefer: last.instance, ...(last.rank !== undefined && { rank: last.rank }) }) });
    const { isStream } = pull.request;
    if (isStream && this.#services.settings().reemitStreams) return this.#decodeWhole(context, turn, { handoff, target });
    return context.open({
      ...decodeLeg(pull, handoff, target),
      headers: UNCOMPRESSED,
      tailBytes: isStream && !this.#streamsParams.has(target.instance) ? PROBE_TAIL_BYTES : WHOLE_TAIL_BYTES,
      onEnd: (end) => (isStream ? this.#streamEnded(turn, target, end) : this.#bodyEnded(turn, target, end)),
    });
  }

  #begin(context: LegContext, id: string, sent: SentTurn): Begun {
    const isRepeat = this.#begun.has(context.request);
    this.#begun.add(context.request);
    const begun = this.#cache.begin(id, sent, isRepeat);
    if (begun.refusal !== undefined && !isRepeat) context.report(refusalVerdict(id, begun.refusal));
    return begun;
  }

  async #prefill(context: LegContext, { id, pull, begun: { blocks } }: Turn): Promise<PrefillDone> {
    const done = blocks === undefined ? 'not read' : await this.#prefillFrom(context, { id, pull, blocks });
    if (done === 'not read') return prefillAnywhere(context, pull);
    if (done !== 'misread') return done;
    // The instance has cached what it read under this prompt's tokens: with a salt of its own the leg does not find it.
    return prefillAnywhere(context, { ...pull, also: new Map([...pull.also, ['cache_salt', JSON.stringify(randomUUID())]]) });
  }

  /** Prefill that reads the last turn's blocks. `not read`: it could not. `misread`: they are not of this prompt. */
  async #prefillFrom(
    context: LegContext,
    { id, pull, blocks }: { readonly id: string; readonly pull: PullRequest; readonly blocks: TakenBlocks },
  ): Promise<PrefillDone | 'not read' | 'misread'> {
    const { instance: holder } = blocks;
    try {
      const target = context.choose('prefill');
      const corrected = correctRemoteHost(blocks.params, holder);
      if (corrected !== undefined) context.report(remoteHostVerdict(corrected, holder, 'decode->proxy'));
      const done = await prefillOnce(context, pull, { target, params: (corrected?.params ?? blocks.params).toString('utf8') });
      return this.#isRightlyRead(context, { id, blocks, done }) ? done : 'misread';
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
      if (NEVER_SENT.has(error.code) || error.code === 'no_instance') this.#cache.giveBack(id, blocks);
      if (!isDeclined(error)) throw error;
      this.#counts.declined++;
      this.#cache.note(id, `declined by prefill: ${error.message}`);
      context.report(declinedVerdict(id, error, holder));
      return 'not read';
    }
  }

  /** Whether prefill's own count of the prompt allows for the blocks it read. */
  #isRightlyRead(context: LegContext, { id, blocks, done }: { readonly id: string; readonly blocks: TakenBlocks; readonly done: PrefillDone }): boolean {
    const { promptTokens, cachedTokens } = done.answer.facts.usage ?? {};
    const { tokens: held } = blocks;
    const { instance } = done.target;
    if (held !== undefined && promptTokens !== undefined && promptTokens < held) {
      context.report(beyondPromptVerdict(id, { held, prompt: promptTokens }, instance));
      return false;
    }
    // Pulled tokens count as cached. Whole blocks may be all that counts.
    const missing = held === undefined || cachedTokens === undefined ? 0 : held - cachedTokens;
    const blockSize = instance.gauges?.blockSize ?? DEFAULT_BLOCK_SIZE;
    if (missing < blockSize) {
      this.#cache.counts.reused++;
      return true;
    }
    this.#counts.notRead++;
    this.#cache.note(id, `prefill read nothing: it had ${cachedTokens} of ${held} tokens itself`);
    if (held !== undefined && cachedTokens !== undefined && missing >= RECOMPUTE_THRESHOLD + blockSize) {
      context.report(notUsedVerdict(id, { held, cached: cachedTokens }, instance));
    }
    return true;
  }

  /** For a streaming client: decode without stream, and its answer as a stream. */
  async #decodeWhole(context: LegContext, turn: Turn, { handoff, target }: { readonly handoff: Handoff; readonly target: LegTarget }): Promise<Answer> {
    const answer = await context.call(decodeLeg(withoutStream(turn.pull), handoff, target));
    const stream = reemitAsStream(answer, turn.pull.request);
    this.#counts.reemitted++;
    this.#wholeAnswer(turn, target, { params: memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS), read: () => readWholeAnswer(answer.body) });
    return stream;
  }

  #bodyEnded(turn: Turn, target: LegTarget, { lastBytes, isWhole }: LegEnd): void {
    const members = isWhole ? scanMembers(lastBytes) : undefined;
    const params = members === undefined ? lastValueOf(lastBytes, PARAMS_KEY) : memberValue(lastBytes, members, KV_TRANSFER_PARAMS);
    this.#wholeAnswer(turn, target, { params, read: () => (isWhole ? readWholeAnswer(lastBytes) : undefined) });
  }

  #wholeAnswer(turn: Turn, target: LegTarget, { params, read }: { readonly params: Buffer | undefined; readonly read: () => Answered | undefined }): void {
    const held = readHeldParams(params);
    this.#counts.wholeAnswers++;
    if (held !== undefined) this.#counts.wholeAnswersWithParams++;
    this.#ended(turn, target, { held, read });
  }

  /** Only a patched engine puts params on the last chunk (vllm pull request 40186). */
  #streamEnded(turn: Turn, target: LegTarget, { lastBytes, isWhole }: LegEnd): void {
    const held = readHeldParams(lastValueOf(lastBytes, PARAMS_KEY));
    this.#counts.streams++;
    if (held !== undefined) {
      this.#counts.streamsWithParams++;
      this.#streamsParams.add(target.instance);
    }
    this.#ended(turn, target, { held, read: () => (isWhole ? readStreamedAnswer(lastBytes) : undefined) });
  }

  #ended({ id, sent, pull: { request: { isStream } } }: Turn, { instance, rank }: LegTarget, { held, read }: { readonly held: HeldParams | undefined; readonly read: () => Answered | undefined }): void {
    const last = { instance, rank };
    if (held === undefined) {
      this.#cache.note(id, `not kept: the ${isStream ? 'stream' : 'answer'} had no kv_transfer_params`, last);
      return;
    }
    this.#compareLife('answered', instance, held.engineId);
    if (this.#services.fleet.get(instance.id) !== instance) return;
    const turn: ReturnType<typeof keepTurn> = keepTurn(sent, read(), held.tokens);
    this.#cache.keep(id, isRefusal(turn) ? { ...turn, ...last } : { ...last, params: held.params, tokens: held.tokens, turn });
  }

  #onChanged(instance: Instance): void {
    const { transfer, version, state } = instance;
    if (state === 'down') this.#cache.drop(instance, `${instance.name} went down`);
    this.#compareLife('announced', instance, transfer?.engineId);
    this.#compareLife('version', instance, version);
  }

  /** A restarted engine has another id (unless its id is configured), and holds nothing of what it held. */
  #compareLife(source: 'answered' | 'announced' | 'version', instance: Instance, now: string | undefined): void {
    const before = this.#lives[source].get(instance);
    if (now === undefined || now === before) return;
    this.#lives[source].set(instance, now);
    if (before !== undefined) this.#cache.drop(instance, `${instance.name} restarted`);
  }
}

function isRefusal(turn: ReturnType<typeof keepTurn>): turn is Refusal {
  return 'why' in turn;
}

/** The engine failed the request, or the linter held it back: without the blocks it may well run. */
function isDeclined({ leg, code, status }: ProxyError): boolean {
  if (leg !== 'prefill') return false;
  return code === 'blocked_by_linter' || code === 'upstream_reported_error' || (code === 'upstream_status' && status >= 500);
}
