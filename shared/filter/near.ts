/** Nearest of `known` to what was typed, for "did you mean"; `undefined` when nothing is close. */
export function nearest(typed: string, known: Iterable<string>): string | undefined {
  const wanted = typed.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const lower = candidate.toLowerCase();
    const distance = wanted.length >= 2 && lower.startsWith(wanted) ? 0.5 : editDistance(wanted, lower);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Edits to turn one word into the other, a swap of neighbours counting as one (optimal string alignment). */
function editDistance(a: string, b: string): number {
  // A word this long is no mistyped key, and the table would grow with the product of both lengths.
  if (a.length > 40 || b.length > 40) return Number.POSITIVE_INFINITY;
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let distance = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) distance = Math.min(distance, at(i - 2, j - 2) + 1);
      row.push(distance);
    }
  }
  return at(a.length, b.length);
}
