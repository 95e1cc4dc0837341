/** Calls `onIdle` once `touch` was not called for so long. The process does not wait for it. */
export function createIdleTimer(ms: number, onIdle: () => void): { readonly touch: () => void } {
  let timer: NodeJS.Timeout | null = null;
  return {
    touch() {
      timer ??= setTimeout(() => {
        timer = null;
        onIdle();
      }, ms).unref();
      timer.refresh();
    },
  };
}
