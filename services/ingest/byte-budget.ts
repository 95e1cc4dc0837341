/** Bytes of events in hand, all tables together: a batch waits until its estimate fits. */
export interface ByteBudget {
  /** Runs `work` when `bytes` are free; a request above the whole budget runs alone. */
  run<T>(bytes: number, work: () => Promise<T>): Promise<T>;
  /** Bytes for work begun before its turn, one piece at a time: only where nobody waits for them. Gives them back when called. */
  readonly spare: (bytes: number) => (() => void) | null;
  inUse(): number;
}

export function createByteBudget(bytesMax: number, parallelMax: number): ByteBudget {
  let used = 0;
  let running = 0;
  let lent = false;
  const waiting: { readonly bytes: number; readonly go: () => void }[] = [];

  function admit(): void {
    for (;;) {
      const next = waiting[0];
      if (next === undefined || running >= parallelMax) return;
      if (running > 0 && used + next.bytes > bytesMax) return;
      waiting.shift();
      used += next.bytes;
      running++;
      next.go();
    }
  }

  return {
    inUse: () => used,
    spare(bytes) {
      if (lent || waiting.length > 0 || used + bytes > bytesMax) return null;
      lent = true;
      used += bytes;
      let given = false;
      return () => {
        if (given) return;
        given = true;
        lent = false;
        used -= bytes;
        admit();
      };
    },
    async run(bytes, work) {
      await new Promise<void>((go) => {
        waiting.push({ bytes, go });
        admit();
      });
      try {
        return await work();
      } finally {
        used -= bytes;
        running--;
        admit();
      }
    },
  };
}
