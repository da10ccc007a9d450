/** An instance with the data-parallel rank that was addressed: `P0/1`; without one, `P0`. */
export function rankedName(name: string, rank: number | undefined): string {
  return rank === undefined ? name : `${name}/${rank}`;
}
