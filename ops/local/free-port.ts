import { createServer } from 'node:net';

/** A TCP port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller does: callers retry. */
export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      if (address === null || typeof address === 'string') {
        reject(new Error('no TCP address for the probe socket'));
        return;
      }
      probe.close(() => {
        resolve(address.port);
      });
    });
  });
}
