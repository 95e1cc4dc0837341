/** Settings of the server, and room on this machine, that end a run days after its start. */
import { statfs } from 'node:fs/promises';
import type { SourceSession } from '../../reader/source.ts';
import { makeFolder } from '../../runtime/make-folder.ts';
import { formatBytes } from '../print-columns.ts';
import { ok, warn, type CheckResult, type Report } from './check.ts';

interface Setting {
  readonly name: string;
  /** In the unit that pg_settings has: milliseconds, seconds or megabytes. */
  readonly value: string;
}

/** What is wrong with a value, or null. A setting that the server does not know is not among those asked. */
const RULES: Readonly<Record<string, (value: string) => { readonly why: string; readonly fix: string } | null>> = {
  max_slot_wal_keep_size: (value) =>
    value !== '-1'
      ? null
      : {
          why: 'max_slot_wal_keep_size is -1: while Sluice is down its slot holds WAL back until the disk is full',
          fix: "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); as large as the disk can spare",
        },
  wal_sender_timeout: (value) =>
    value !== '0'
      ? null
      : {
          why: 'wal_sender_timeout is 0: the server never notices a reader that vanished, and its slot stays in use',
          fix: "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();",
        },
  idle_replication_slot_timeout: (value) =>
    value === '0'
      ? null
      : {
          why: 'idle_replication_slot_timeout is set: the slot is lost when Sluice is down for longer',
          fix: 'ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf(); or never stop Sluice for so long',
        },
  server_encoding: (value) =>
    value !== 'SQL_ASCII'
      ? null
      : {
          why: 'server_encoding is SQL_ASCII: PostgreSQL takes any bytes, and will not send a text that is no UTF-8: one such change stops the reader',
          fix: 'dump the database and restore it into one with ENCODING UTF8, or make sure that all its clients write UTF-8',
        },
};

/** Readings of pg_settings, judged. Pure. */
export function judgeSettings(settings: readonly Setting[]): readonly CheckResult[] {
  const findings = settings.flatMap(({ name, value }) => {
    const found = RULES[name]?.(value) ?? null;
    return found === null ? [] : [warn('server settings', found.why, found.fix)];
  });
  return findings.length > 0 ? findings : [ok('server settings', 'WAL of the slot is bounded, and timeouts are set')];
}

export async function checkSettings(session: SourceSession, report: Report): Promise<void> {
  const names = Object.keys(RULES).map((name) => `'${name}'`);
  const rows = await session.query(
    `select name, setting as value from pg_settings where name in (${names.join(', ')}) order by name`,
  );
  const settings = rows.map(({ name, value }) => ({ name: name ?? '', value: value ?? '' }));
  for (const finding of judgeSettings(settings)) report(finding);
}

/** Less than this, and one busy hour may fill the disk. */
const FREE_MIN = 2n * 1024n ** 3n;

export async function checkDisk(folder: string, report: Report): Promise<void> {
  makeFolder(folder);
  const { bavail, bsize } = await statfs(folder, { bigint: true });
  const free = bavail * bsize;
  const has = `${formatBytes(Number(free))} free for the embedded log in ${folder}`;
  report(
    free >= FREE_MIN
      ? ok('disk', has)
      : warn(
          'disk',
          has,
          'make room, or name another disk by log.path: while the lake cannot be reached, the log grows',
        ),
  );
}
