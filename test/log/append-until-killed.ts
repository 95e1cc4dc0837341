/**
 * A process of its own for tests: takes over `identity`, then appends to two topics and a mark, over and over, printing the
 * number of each append once it is durable.
 *   tsx append-until-killed.ts DIRECTORY IDENTITY
 */
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { LogError } from '../../services/log/log.ts';

const [directory, identity] = process.argv.slice(2);
if (directory === undefined || identity === undefined) throw new Error('DIRECTORY and IDENTITY are needed');
const log = await openEmbeddedLog({ directory, chunkBytes: 10_000, segmentBytes: 300_000 });
const writer = await log.writer(identity);
const bounds = await log.reader.bounds('a');
let number = Number(bounds.get(0)?.end ?? 0n) / 40;
process.stdout.write(`from ${number}\n`);
try {
  for (;;) {
    const value = Buffer.from(`${identity} ${number} ${'x'.repeat(500)}`);
    const records = ['a', 'b'].flatMap((topic) =>
      Array.from({ length: 40 }, (_, i) => ({ topic, key: Buffer.from(`${i}`), value, header: null })),
    );
    const next = await writer.append(records, (offsets) => [
      {
        topic: 'marks',
        key: null,
        value: Buffer.from(`${offsets.get('a')?.get(0) ?? -1} ${offsets.get('b')?.get(0) ?? -1}`),
        header: null,
      },
    ]);
    number = Number(next.get('a')?.get(0) ?? 0n) / 40;
    process.stdout.write(`done ${number}\n`);
  }
} catch (error) {
  process.stdout.write(`stopped ${error instanceof LogError ? error.code : String(error)}\n`);
  process.exitCode = 3;
}
