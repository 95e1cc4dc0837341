/** `public.*`, `order?`: matched against names of tables. `*` and `?` stand for any characters, all others for themselves. */
export function matchesGlob(glob: string, name: string): boolean {
  let [g, n, star, mark] = [0, 0, -1, 0];
  while (n < name.length) {
    if (g < glob.length && (glob[g] === '?' || (glob[g] !== '*' && glob[g] === name[n]))) {
      g++;
      n++;
    } else if (glob[g] === '*') {
      star = g++;
      mark = n;
    } else if (star >= 0) {
      // The last star takes one character more.
      g = star + 1;
      n = ++mark;
    } else return false;
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}
