/** Puts the missed tokens of a request under what they are to an engineer, while the request is still at hand. */
import { grouped, groupOf, type CauseGroup } from './cause-group.ts';
import { placeOf } from './cause-place.ts';
import type { DivergencePlace, MissShare } from './kept-report.ts';
import { joined } from './miss-shares.ts';
import type { PromptSource } from './prompt-source.ts';
import type { TokenText } from './token-text.ts';

/** Divergences remembered; the same one mostly comes again. */
const MAX_GROUPS = 500;

export interface GroupOptions {
  readonly source: PromptSource;
  /** Of the prompt's blocks. */
  readonly blockSize: number;
  /** Whether instances may be asked for the text of a divergence that is new. */
  readonly mayAsk: () => boolean;
}

export class CauseGrouper {
  readonly #text: TokenText;
  /** By place and what stands before: equal ones are looked up once. */
  readonly #groups = new Map<string, CauseGroup>();

  constructor(text: TokenText) {
    this.#text = text;
  }

  /** Shares stay under their own keys where no instance tells their text, or none may be asked. */
  async group(shares: readonly MissShare[], { source, blockSize, mayAsk }: GroupOptions): Promise<MissShare[]> {
    const whole: MissShare[] = [];
    for (const share of shares) {
      const group = share.place === undefined ? undefined : (this.#groups.get(share.key) ?? (mayAsk() ? await this.#groupOf(share.key, share.place, source) : undefined));
      whole.push(group === undefined ? share : grouped(share, group, blockSize));
    }
    return joined(whole);
  }

  async #groupOf(key: string, place: DivergencePlace, source: PromptSource): Promise<CauseGroup | undefined> {
    const [lead = '', asked, held] = await this.#text.decode([{ tokens: place.lead }, { tokens: place.asked }, { tokens: place.held }]);
    if (asked === undefined || held === undefined) return undefined;
    const where = source.kind === 'chat' ? placeOf(source.json, { lead, asked }) : 'the prompt';
    const found = groupOf({ lead, asked, held, where });
    this.#groups.set(key, found);
    for (const oldest of this.#groups.keys()) {
      if (this.#groups.size <= MAX_GROUPS) break;
      this.#groups.delete(oldest);
    }
    return found;
  }
}
