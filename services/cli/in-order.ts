/** Works at a few items at once and gives what came of them in their order. @throws what the first failed one threw */
export async function* inOrder<Item, Result>(
  items: readonly Item[],
  most: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<readonly [Item, Result]> {
  const running: { readonly item: Item; readonly result: Promise<Result> }[] = [];
  let next = 0;
  for (;;) {
    while (running.length < most && next < items.length) {
      const item = items[next++] as Item;
      const result = work(item);
      // Told when its turn comes, or never, behind one that failed.
      result.catch(() => undefined);
      running.push({ item, result });
    }
    const first = running.shift();
    if (first === undefined) return;
    yield [first.item, await first.result];
  }
}
