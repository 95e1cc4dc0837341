/**
 * The known word that a misspelt one most likely meant, or null when none is near enough to be worth a hint.
 * Distance counts insertions, deletions, substitutions and swaps of neighbours; case does not count.
 */
export function nearest(word: string, known: Iterable<string>): string | null {
  const typed = word.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(typed.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(typed, candidate.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean 'x'?`, else the list of what is allowed (shortened), else null. */
export function didYouMean(word: string, known: readonly string[]): string | null {
  const best = nearest(word, known);
  if (best !== null) return `did you mean '${best}'?`;
  return known.length === 0 ? null : knownHere(known);
}

export function knownHere(known: readonly string[]): string {
  const shown = known.slice(0, 14).join(', ');
  return `known here: ${shown}${known.length > 14 ? ', …' : ''}`;
}

/** Damerau-Levenshtein (optimal string alignment), given up at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      let cost = Math.min(
        (last[j] ?? limit) + 1,
        (current[j - 1] ?? limit) + 1,
        (last[j - 1] ?? limit) + (same ? 0 : 1),
      );
      const swapped =
        i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1);
      if (swapped) cost = Math.min(cost, (beforeLast[j - 2] ?? limit) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? limit;
}
