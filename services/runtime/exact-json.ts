/** Bigints as decimal text, so that no 64-bit number is rounded on the way out. */
export function exactJson(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}
