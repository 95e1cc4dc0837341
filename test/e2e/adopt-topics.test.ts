/** `sluice adopt` goes on with Debezium's topics where a Spark job stood, with the table that it wrote. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Kafka, logLevel, type Producer } from 'kafkajs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readWithDeltaRs, writeWithDeltaRs } from '../judges/judge.ts';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { requires } from '../support/requirements.ts';
import { runSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const suite = await requires('taking over topics of Debezium', 'kafka', 'python');

const CONTRACT = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.t
version: 1.0.0
status: active
schema:
  - name: t
    logicalType: object
    physicalName: t
    properties:
      - {name: id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: v, logicalType: string, physicalType: text}
`;

suite('taking over topics of Debezium', () => {
  const folder = temporaryFolder('adopt-topics');
  let kafka: TestKafka;
  let client: Kafka;
  let producer: Producer;
  let topic: string;
  let options: { cwd: string; env: Record<string, string> };
  let lsn = 1000;

  const sluice = (...args: string[]) => runSluice(args, options);
  const send = (partition: number, op: string, id: number, v: string | null): Promise<unknown> => {
    lsn += 8;
    const row = { id, v };
    const source = { connector: 'postgresql', lsn, ts_ms: 1_700_000_000_000, schema: 'public', table: 't' };
    const value = { before: op === 'd' ? row : null, after: op === 'd' ? null : row, source, op, ts_ms: 1 };
    return producer.send({
      topic,
      messages: [{ partition, key: JSON.stringify({ id }), value: JSON.stringify(value) }],
    });
  };
  const rows = async (): Promise<[unknown, unknown][]> =>
    (await readWithDeltaRs(join(folder, 'lake/public/t')))
      .map((text) => JSON.parse(text) as { id: unknown; v: unknown })
      .map(({ id, v }): [unknown, unknown] => [Number(id), v])
      .sort(([a], [b]) => Number(a) - Number(b));

  beforeAll(async () => {
    kafka = await getKafka();
    topic = `${kafka.prefix}.public.t`;
    client = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
    const admin = client.admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] });
    await admin.disconnect();
    producer = client.producer();
    await producer.connect();
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(join(folder, 'contracts/public.t.odcs.yaml'), CONTRACT);
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: ${kafka.prefix}-adopting
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], debezium: {topics: ["${topic}"]}}
lake: {uri: ./lake}
stream: {trigger: 100ms}
logging: {level: error}
`,
    );
    options = { cwd: folder, env: {} };
  });
  afterAll(() => producer.disconnect());

  it('goes on from the checkpoint of the job, and refuses places that cannot be right', async () => {
    // Applied by the job: the first two of partition 0 and the first of partition 1; the fourth batch was begun.
    await send(0, 'c', 1, 'one');
    await send(0, 'c', 2, 'two');
    await send(1, 'c', 3, 'three');
    const fields = [
      ['id', 'long'],
      ['v', 'string'],
      ['loaded_by', 'string'],
    ] as const;
    const written = [
      ['1', 'one', 'spark'],
      ['2', 'two', 'spark'],
      ['3', 'three', 'spark'],
    ];
    await writeWithDeltaRs(join(folder, 'lake/public/t'), { fields, rows: written });
    const checkpoint = join(folder, 'checkpoint');
    const offsets = (zero: number, one: number): string =>
      `v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"${topic}":{"0":${zero},"1":${one}}}`;
    for (const part of ['offsets', 'commits']) mkdirSync(join(checkpoint, part), { recursive: true });
    writeFileSync(join(checkpoint, 'metadata'), '{"id":"6f9b2e4e-0000-4000-8000-000000000001"}');
    writeFileSync(join(checkpoint, 'offsets/2'), offsets(2, 1));
    writeFileSync(join(checkpoint, 'offsets/3'), offsets(4, 2));
    writeFileSync(join(checkpoint, 'commits/2'), 'v1\n{"nextBatchWatermarkMs":0}');
    await send(0, 'u', 1, 'one again');
    await send(0, 'd', 2, null);
    await send(1, 'c', 4, 'four');

    expect(await sluice('adopt')).toMatchObject({ code: 1, out: expect.stringContaining('nobody said') });
    expect(await sluice('adopt', '--offsets', `${topic}:0:2`)).toMatchObject({
      code: 1,
      out: expect.stringContaining('partition 1 has no offset'),
    });
    expect(await sluice('adopt', '--offsets', `${topic}:0:2,${topic}:1:99`)).toMatchObject({
      code: 1,
      out: expect.stringContaining('TOPIC_RESET'),
    });
    expect(await sluice('adopt', '--offsets', 'ghost.public.t:0:0')).toMatchObject({ code: 2 });
    const dry = await sluice('adopt', '--checkpoint', checkpoint);
    expect(dry.code, dry.out + dry.err).toBe(0);
    expect(dry.out).toContain('partition 0 from 2, partition 1 from 1');
    expect(dry.out).toContain("columns loaded_by are not the source's");
    const done = await sluice('adopt', '--checkpoint', checkpoint, '--yes');
    expect(done.code, done.out + done.err).toBe(0);
    const caughtUp = await sluice('stream', '--available-now');
    expect(caughtUp.code, caughtUp.out + caughtUp.err).toBe(0);
    const expected = [
      [1, 'one again'],
      [3, 'three'],
      [4, 'four'],
    ];
    expect(await rows()).toEqual(expected);
    expect(await sluice('adopt', '--checkpoint', checkpoint, '--yes')).toMatchObject({ code: 0 });
    await send(1, 'u', 4, 'four again');
    expect(await sluice('stream', '--available-now')).toMatchObject({ code: 0 });
    expect(await rows()).toEqual([
      [1, 'one again'],
      [3, 'three'],
      [4, 'four again'],
    ]);
  });
});
