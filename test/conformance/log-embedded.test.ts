import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { registerLogSuite } from './register-log-suite.ts';

registerLogSuite('embedded', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-log-'));
  let released = 0;
  return {
    // Every chunk is small, so that ranges cross chunks and segments; released records expire at once where a topic says.
    open: () =>
      openEmbeddedLog({
        directory,
        chunkBytes: 20_000,
        segmentBytes: 200_000,
        retentionBytes: 0,
        pollMs: 5,
        recordBytesMax: 2_000_000,
      }),
    async expire(log, topic, partition, offset) {
      released++;
      await log.admin.releaseUpTo(topic, new Map([[partition, offset]]));
    },
    close() {
      if (released === 0) throw new Error('retention was not tried');
      rmSync(directory, { recursive: true, force: true });
      return Promise.resolve();
    },
  };
});
