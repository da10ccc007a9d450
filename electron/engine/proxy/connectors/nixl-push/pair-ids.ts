/**
 * X-Request-Ids of pairs. Push engines match prefill and decode by the request id alone (vllm/distributed/kv_transfer/
 * kv_connector/v1/nixl/utils.py), and keep what found no match: under an id used twice a decode leg could get the KV of
 * another request. So an id that is under way, or that a failed try has used, gets a suffix.
 *
 * Bounded: ids of failed tries are remembered up to a number, far beyond what engines keep for their 480 s.
 */
const MAX_SPENT = 16_384;

export class PairIds {
  readonly #underWay = new Set<string>();
  readonly #spent = new Set<string>();

  get underWay(): number {
    return this.#underWay.size;
  }

  /** `requestId` itself, or with `-try<n>` when that is taken. To be given back with `release`. */
  claim(requestId: string): string {
    let id = requestId;
    for (let number = 2; this.#underWay.has(id) || this.#spent.has(id); number++) id = `${requestId}-try${number}`;
    this.#underWay.add(id);
    return id;
  }

  /** @param isMatched the engines have found each other: nothing of this id is left in them. */
  release(id: string, isMatched: boolean): void {
    this.#underWay.delete(id);
    if (isMatched) return;
    this.#spent.add(id);
    if (this.#spent.size <= MAX_SPENT) return;
    const [oldest] = this.#spent;
    if (oldest !== undefined) this.#spent.delete(oldest);
  }
}
