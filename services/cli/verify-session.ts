/** Source, lake and the tables of the pipeline, open for comparing. */
import { createHasher } from '../../contracts/engine/privacy.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { contractFolder } from '../ingest/contract-files.ts';
import { createShapeFeed } from '../ingest/shape-feed.ts';
import type { TableShape } from '../log/event.ts';
import { matchesGlobs } from '../reader/table-globs.ts';
import type { PostgresSource } from '../reader/source.ts';
import type { VerifyOptions } from '../replay/verify/verify.ts';
import type { Config } from '../runtime/config.ts';
import { ConfigError } from '../runtime/errors.ts';
import { openLake } from './assemble/lake.ts';
import { openLog } from './assemble/log.ts';
import { piiKey } from './assemble/log-privacy.ts';
import { openReplica, openSource } from './assemble/source.ts';
import { lakeReaches } from './lake-reaches.ts';
import { retryPassing } from './retry-passing.ts';
import { markBehind, verifyOne, type SampleSize, type TableReport } from './verify-tables.ts';

export interface VerifySession {
  readonly config: Config;
  readonly source: PostgresSource;
  readonly lake: ObjectStore;
  /** Tables that the reader has written to the log and that match. @throws ConfigError when none does */
  tables(globs: readonly string[]): readonly TableShape[];
  /** Takes up what the reader wrote of its tables since. */
  refresh(): Promise<void>;
  verify(shape: TableShape, options?: VerifyHow): Promise<TableReport>;
}

export interface VerifyHow {
  readonly where?: string | null;
  readonly bytesPerSecond?: number | null;
  readonly sample?: SampleSize;
  readonly options?: Partial<VerifyOptions>;
}

/** Closed behind the work. */
export async function withVerify<T>(
  reload: () => Config,
  signal: AbortSignal,
  work: (session: VerifySession) => Promise<T>,
): Promise<T> {
  const config = reload();
  const key = piiKey(config);
  const hasher = key === null ? null : createHasher(key);
  const lake = openLake(config);
  try {
    const source = await openSource(config, reload);
    const readFrom = config.source.replica === null ? source : await openReplica(config, reload);
    const log = await openLog(config, reload);
    try {
      const shapes = createShapeFeed(log.reader, config.name);
      await shapes.refresh();
      return await work({
        config,
        source,
        lake,
        tables(globs) {
          const wanted = shapes.followed().filter((shape) => matchesGlobs(globs, shape.schema, shape.table));
          if (wanted.length > 0) return wanted;
          throw new ConfigError(
            `no table of the pipeline matches ${globs.join(', ')}`,
            'see `sluice status` for the tables, and start `sluice run` if there are none yet',
          );
        },
        refresh: () => shapes.refresh(),
        verify: (shape, how = {}) =>
          retryPassing(() =>
            verifyOne(shape, {
              source,
              readFrom,
              publication: config.source.publication,
              lake,
              contracts: contractFolder(config.contracts),
              hasher,
              reached: lakeReaches(
                { config, lake, askForMark: () => markBehind(source) },
                signal,
                `${shape.schema}.${shape.table}`,
              ),
              ...how,
            }),
          ),
      });
    } finally {
      await log.close();
    }
  } finally {
    await lake.close();
  }
}
