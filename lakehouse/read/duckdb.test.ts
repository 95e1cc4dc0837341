import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openDuckDb } from './duckdb.ts';

it('says that memory is too small, without the advice that the sealed session could not take', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-duckdb-'));
  const session = await openDuckDb({ memory: '10MB', threads: 1, spillFolder: folder });
  try {
    const error = await session
      .run(`SELECT string_agg(repeat('x', 1000), ',') FROM range(100000)`)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'SQL_TOO_LARGE', message: expect.stringMatching(/^Out of Memory Error: .+$/) });
    await expect(session.run('SELECT nothing')).rejects.toMatchObject({ code: 'SQL_INVALID' });
  } finally {
    session.close();
    rmSync(folder, { recursive: true });
  }
});
