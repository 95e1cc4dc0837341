/** Replay over a topic of Kafka with several partitions: in place, into a second table, switched in and back. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { contractFolder } from '../../services/ingest/contract-files.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import { buildTable } from '../../services/replay/replay/build-table.ts';
import { diffBuild } from '../../services/replay/replay/diff-build.ts';
import { replayInPlace } from '../../services/replay/replay/in-place.ts';
import type { ReplayParts } from '../../services/replay/replay/parts.ts';
import { settleSwap } from '../../services/replay/replay/swap-steps.ts';
import { undoSwap } from '../../services/replay/replay/swap-undo.ts';
import { swapTable } from '../../services/replay/replay/table-swap.ts';
import { createParts } from '../ingest/bench-of-parts.ts';
import { getKafka } from '../support/kafka.ts';
import { getPostgres } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { columnOf, shapeOf } from '../support/row-events.ts';
import { startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('replay over Kafka', 'kafka');

suite('replay over Kafka', () => {
  it('gives the same rows, and switches', async () => {
    const { brokers, prefix: name } = await getKafka();
    const log = await openKafkaLog({
      name,
      brokers,
      clientId: name,
      replicationFactor: 1,
      tls: null,
      credentials: null,
    });
    const parts = await createParts(log, name);
    try {
      const t = shapeOf([columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'integer')], {
        table: 't',
        version: 1,
      });
      const T = { schema: 'public', table: 't' };
      const INTO = { schema: 'public', table: 't_new' };
      await parts.reader.addShape(t, 3);
      const replay: ReplayParts = {
        name,
        log,
        logId: await log.admin.logId(),
        lake: parts.lake,
        checkpoint: { store: parts.lake, folder: '_sluice/checkpoints' },
        stateFolder: join(parts.folder, 'state', 'replay'),
        contracts: contractFolder(join(parts.folder, 'contracts')),
        piiKey: null,
        memoryBytes: 128 * 1024 * 1024,
        maxOffsetsPerTrigger: 50,
        changeDataFeed: false,
        deletionVectors: true,
        retentionMs: 7 * 24 * 3600 * 1000,
        now: Date.now,
        newId: randomUUID,
        failpoint: () => undefined,
      };
      const ingest = await parts.start({ beforeTable: () => settleSwap(replay, T) });
      const reached = (sequence: number): Promise<boolean> =>
        waitFor('the mark', () => (ingest.owned('public.t')?.position().markSequence ?? 0) >= sequence);
      let mark = 0;
      for (let round = 0; round < 10; round++)
        mark = (
          await parts.reader.commit(
            Array.from({ length: 20 }, (_, i) => {
              const id = String((round * 7 + i) % 60);
              return round % 3 === 2 && i % 5 === 0
                ? { shape: t, op: 'd' as const, before: [id, null] }
                : { shape: t, op: 'u' as const, after: [id, String(round * 100 + i)] };
            }),
          )
        ).sequence;
      await reached(mark);
      const owner = ingest.owned('public.t');
      if (owner === null) throw new Error('no owner');
      const quiet = { signal: new AbortController().signal, onProgress: () => undefined };
      const before = await parts.rows('public/t');
      expect(before.size).toBeGreaterThan(30);
      expect(
        await replayInPlace(replay, owner, { table: T, from: 'offset:0=0,1=3,2=5', to: 'now' }, quiet),
      ).toMatchObject({ applied: 0, unsettledKeys: 0 });
      expect(await parts.rows('public/t')).toEqual(before);
      const document = parseDocument(await readFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), 'utf8'));
      const properties = document.getIn(['schema', 0, 'properties']) as YAMLSeq<YAMLMap>;
      properties.items[1]?.set('customProperties', parseDocument('[{property: piiAction, value: drop}]').contents);
      await buildTable(
        replay,
        {
          table: T,
          into: INTO,
          from: null,
          to: { kind: 'now' },
          contract: { file: 'other.yaml', text: document.toString() },
        },
        quiet,
      );
      await reached((await parts.reader.commit([{ shape: t, op: 'c', after: ['900', '9'] }])).sequence);
      expect(await diffBuild(replay, { table: T, into: INTO }, { signal: quiet.signal, samplesMax: 5 })).toMatchObject({
        atOneLsn: true,
        added: 0,
        removed: 0,
        changed: 0,
        columns: [{ column: 'n', change: 'dropped' }],
      });
      await swapTable(replay, owner, { table: T, into: INTO }, quiet);
      const after = await parts.reader.commit([
        { shape: t, op: 'c', after: ['901', '9'] },
        { shape: t, op: 'd', before: ['900', null] },
      ]);
      await reached(after.sequence);
      const swapped = await parts.rows('public/t');
      expect([...swapped.keys()].toSorted()).toEqual([...before.keys(), '901'].toSorted());
      expect(swapped.get('901')?.['n']).toBeUndefined();
      await undoSwap(replay, owner, T, quiet);
      const back = await parts.rows('public/t');
      for (const [id, row] of before) expect(back.get(id)).toEqual(row);
      expect([...back.keys()].toSorted()).toEqual([...before.keys(), '901'].toSorted());
      expect(back.get('901')?.['n']).toBe(9);
    } finally {
      await parts.close();
    }
  });
});

const without = await requires('replay over Kafka without a service', 'kafka', 'pg18');

without('replay over Kafka where no service runs', () => {
  const folder = temporaryFolder('replay-kafka');

  const records = async (pipeline: ReplayPipeline): Promise<number> => {
    const { json } = await pipeline.sluice('replay', 'items', '--dry-run', '--json');
    return (json['tables'] as { records: number }[] | undefined)?.[0]?.records ?? 0;
  };

  it('waits for its tables to be shared out to it, and has them at the end of the log', async () => {
    const { brokers, prefix } = await getKafka();
    const database = await getPostgres();
    try {
      await database.query(`
        create table items (id int primary key, n int);
        insert into items select i, i from generate_series(1, 400) i`);
      const log = `log: {kind: kafka, brokers: ["${brokers.join('", "')}"], partitions: 2}`;
      const pipeline = await createReplayPipeline(folder, prefix, database, log);
      const first = await pipeline.sluice('run', '--available-now');
      expect(first.code, first.err).toBe(0);
      const before = await records(pipeline);
      // The reader alone: what it brings stands in the log and not in the table.
      await database.query('update items set n = -n where id <= 50; delete from items where id = 60');
      const reader = startSluice(['reader'], { cwd: pipeline.folder, env: { PGURL: database.url } });
      await waitFor('the log', async () => (await records(pipeline)) >= before + 51);
      reader.kill('SIGTERM');
      await reader.ended;
      const done = await pipeline.sluice('replay', 'items', '--json');
      expect(done.code, done.err).toBe(0);
      expect(done.json['tables']).toMatchObject([{ table: 'public.items', applied: 0, unsettledKeys: 0 }]);
      const rows = await pipeline.rows('public.items', ['id']);
      expect(rows.size).toBe(399);
      expect(rows.get('7')).toContain('"n":-7');
    } finally {
      await database.close();
    }
  });
});
