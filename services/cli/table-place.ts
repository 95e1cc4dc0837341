/** Which table a `sluice table …` command means: SCHEMA.TABLE of the configured lake, or any Delta table by path or URI. */
import type { Command } from 'commander';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { versionAt, versionFrom } from '../../lakehouse/table/history.ts';
import { openSnapshot, type Snapshot } from '../../lakehouse/table/snapshot.ts';
import { checksumMismatch } from '../../lakehouse/table/version-checksum.ts';
import { tableFolder } from '../ingest/table-target.ts';
import { codeOf } from '../runtime/codes.ts';
import { ConfigError } from '../runtime/errors.ts';
import { openLake } from './assemble/lake.ts';
import type { CliContext } from './command.ts';
import { withConfig } from './command.ts';
import { isQuoted, parseTableName } from './table-name.ts';

export interface TableOptions {
  readonly config?: string;
  readonly json?: boolean;
}

/** `sluice table NAME <table> [--config] [--json]`. */
export function tableCommand(parent: Command, name: string, description: string): Command {
  return withConfig(parent.command(name))
    .description(description)
    .argument('<table>', 'SCHEMA.TABLE of the lake, or the path or URI of any Delta table')
    .option('--json', 'print JSON');
}

/** Rooted at the table. Nothing is read yet. @throws ConfigError; StoreError STORE_BAD_URI */
export function openTablePlace(context: CliContext, table: string, options: TableOptions): ObjectStore {
  const config = context.loadConfig(options.config);
  if (isUri(table)) return openLake({ ...config, lake: { ...config.lake, uri: table } });
  const named = parseTableName(table);
  return subStore(openLake(config), tableFolder(named.schema, named.table));
}

/** A path has a slash or begins with a dot; a table's name has neither. */
export function isUri(table: string): boolean {
  if (isQuoted(table)) return false;
  return table.includes('/') || table.includes('\\') || table.startsWith('.') || /^[a-z0-9+.-]+:/i.test(table);
}

/**
 * The table at a version (the newest when absent), to be read. A checksum that contradicts the log hinders no reader; it is told
 * of on stderr.
 */
export async function openToRead(
  context: Pick<CliContext, 'err'>,
  store: ObjectStore,
  at: string | undefined,
): Promise<Snapshot> {
  const snapshot = await openSnapshot(store, at === undefined ? {} : { version: await parseVersion(store, at) });
  if (snapshot.checksumFault !== null) {
    const { message } = checksumMismatch(store.uri, snapshot.checksumFault);
    context.err(`sluice: warning: ${message} (${codeOf('CHECKSUM_MISMATCH')?.entry.code ?? ''})\n`);
  }
  return snapshot;
}

const DAY = /^\d{4}-\d\d-\d\d$/;

/**
 * `--at` and the like: a version, or the newest one at a time.
 * @throws ConfigError; TableError VERSION_NOT_FOUND
 */
export async function parseVersion(store: ObjectStore, text: string): Promise<bigint> {
  const given = parseVersionOrTime(text);
  return typeof given === 'bigint' ? given : versionAt(store, given);
}

/**
 * `--from`: a version, or the first one from a time on (the one after the newest when there is none yet).
 * @throws ConfigError; TableError VERSION_NOT_FOUND
 */
export async function parseFirstVersion(store: ObjectStore, text: string): Promise<bigint> {
  const given = parseVersionOrTime(text);
  return typeof given === 'bigint' ? given : versionFrom(store, given);
}

export const isVersion = (text: string): boolean => /^\d{1,19}$/.test(text);

function parseVersionOrTime(text: string): bigint | number {
  if (isVersion(text)) return BigInt(text);
  const timestampMs = Date.parse(DAY.test(text) ? `${text}T00:00:00Z` : text);
  if (!Number.isFinite(timestampMs)) {
    throw new ConfigError(
      `"${text}" is no version and no time`,
      'write a version number, or a time like 2026-01-31T12:00:00Z',
    );
  }
  return timestampMs;
}
