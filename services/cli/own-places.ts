/** What a pipeline made in its state folder and its lake, told from what else stands there: only its own may be dropped. */
import { readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { TableError } from '../../lakehouse/table/table-error.ts';
import { readIdentity } from './assemble/identity.ts';

const STATE = /^(index|streamed|replay|log|worker\.pid|worker-\d+)$/;
const LOG = /^(busy|segments|index\.mdb|index\.mdb-lock)$/;

export interface OwnFiles {
  readonly folder: string;
  readonly own: readonly string[];
  readonly strangers: readonly string[];
}

/** A state folder may be a volume that other things stand on, the lake among them. `log`: the embedded log's, where it is apart. */
export function filesOf(folder: string, kind: 'state' | 'log'): OwnFiles {
  const names = entries(folder);
  const isOwn = (name: string): boolean => (kind === 'state' ? STATE : LOG).test(name);
  return { folder, own: names.filter(isOwn), strangers: names.filter((name) => !isOwn(name)) };
}

/** The folder goes, too, when nothing else is in it. */
export function removeFiles({ folder, own, strangers }: OwnFiles): void {
  for (const name of own) rmSync(join(folder, name), { recursive: true, force: true });
  if (strangers.length === 0) rmdirSync(folder);
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Not there, or no folder: nothing of ours.
    return [];
  }
}

export interface OwnObjects {
  readonly own: readonly string[];
  /** Tables and prefixes of somebody else, or that do not say whose they are. */
  readonly strangers: readonly string[];
}

/** `tables`: with the tables that the pipeline wrote; else only what it keeps under `_sluice/`. */
export async function objectsOf(lake: ObjectStore, name: string, tables: boolean): Promise<OwnObjects> {
  const keeper = (await readIdentity(lake))?.name ?? name;
  const keys: string[] = [];
  for await (const { key } of lake.list(tables ? '' : '_sluice/')) keys.push(key);
  const roots = [...new Set(keys.filter((key) => key.includes(LOG_FOLDER)).map(rootOf))];
  const prefixes = keeper === name ? ['_sluice/'] : [];
  for (const root of roots) if (await wrote(lake, root, name)) prefixes.push(root);
  const isOwn = (key: string): boolean => prefixes.some((prefix) => key.startsWith(prefix));
  const strangers = keys
    .filter((key) => !isOwn(key))
    .map((key) => roots.find((root) => key.startsWith(root)) ?? key.replace(/\/.*/s, '/'));
  return { own: keys.filter(isOwn), strangers: [...new Set(strangers)] };
}

const LOG_FOLDER = '/_delta_log/';
const rootOf = (key: string): string => key.slice(0, key.indexOf(LOG_FOLDER) + 1);

/** A table that cannot be read does not say so: it stays. */
async function wrote(lake: ObjectStore, root: string, name: string): Promise<boolean> {
  try {
    const { txns } = await openSnapshot(subStore(lake, root.slice(0, -1)));
    // services/ingest/txn-ids.ts
    return [...txns.keys()].some((appId) => appId.startsWith(`${name}/`));
  } catch (error) {
    if (error instanceof TableError) return false;
    throw error;
  }
}
