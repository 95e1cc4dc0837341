/** A clock that stands still, creeps, and jumps both ways, by a seed: nothing but a hint may hang on it. */
import { seededRandom } from './seeded-random.ts';

export function jumpyClock(seed: number, startMs: number): () => number {
  const random = seededRandom(seed);
  let nowMs = startMs;
  return () => {
    const roll = random.next();
    if (roll < 0.02) nowMs += random.integer(40 * 86_400_000);
    else if (roll < 0.04) nowMs -= random.integer(40 * 86_400_000);
    else if (roll < 0.5) nowMs += random.integer(1_000);
    return nowMs;
  };
}
