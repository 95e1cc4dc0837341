/**
 * Every error code and named state that a person can meet, with its number. Errors and states carry words (`SLOT_LOST`); the
 * number is what a search, a ticket or an alert holds on to, and it outlives a reworded message. That the table is whole is
 * held by a type in services/cli/explain-failure.ts, that each has its page by codes.test.ts.
 */
import { nearest } from '../../contracts/engine/nearest.ts';
import type { CodeEntry } from './codes/code-entry.ts';
import { COMMAND_CODES } from './codes/command-line-codes.ts';
import { CONTRACT_CODES } from './codes/contract-codes.ts';
import { LOG_CODES } from './codes/log-codes.ts';
import { QUARANTINE_CODES } from './codes/quarantine-codes.ts';
import { REPLAY_CODES } from './codes/replay-codes.ts';
import { SOURCE_CODES } from './codes/source-codes.ts';
import { STATE_CODES } from './codes/state-codes.ts';
import { STORE_CODES } from './codes/store-codes.ts';
import { TABLE_CODES } from './codes/table-codes.ts';

export const CODES = {
  ...COMMAND_CODES,
  ...SOURCE_CODES,
  ...LOG_CODES,
  ...STORE_CODES,
  ...TABLE_CODES,
  ...STATE_CODES,
  ...CONTRACT_CODES,
  ...QUARANTINE_CODES,
  ...REPLAY_CODES,
} as const;

export type CodeWord = keyof typeof CODES;

/** Words of the operating system and of PostgreSQL that mean one of ours. */
const ALIASES: Readonly<Record<string, CodeWord>> = {
  ECONNREFUSED: 'CONNECTION_FAILED',
  ECONNRESET: 'CONNECTION_FAILED',
  EHOSTUNREACH: 'CONNECTION_FAILED',
  ENOTFOUND: 'CONNECTION_FAILED',
  EAI_AGAIN: 'CONNECTION_FAILED',
  ETIMEDOUT: 'CONNECTION_FAILED',
  EADDRINUSE: 'PORT_IN_USE',
  '28P01': 'SOURCE_AUTHENTICATION',
  '28000': 'SOURCE_AUTHENTICATION',
  '3D000': 'SOURCE_UNREACHABLE',
  GAP: 'SLOT_MOVED',
};

const BY_WORD: ReadonlyMap<string, CodeEntry> = new Map(Object.entries(CODES));
const WORDS: readonly string[] = [...BY_WORD.keys()];

export interface FoundCode {
  readonly word: string;
  readonly entry: CodeEntry;
}

/** The entry of an error's or state's exact word, or of a word that means the same; null = it has none. */
export function codeOf(word: string): FoundCode | null {
  // `DISK_FULL(lake)`: the place is no part of the word.
  const plain = word.replace(/\(.*\)$/, '');
  const ours = Object.hasOwn(ALIASES, plain) ? (ALIASES[plain] ?? plain) : plain;
  const entry = BY_WORD.get(ours);
  return entry === undefined ? null : { word: ours, entry };
}

/** What a person typed: `SLU-6010`, `6010`, `slot_lost`, `slot-lost`; null = nothing of that name. */
export function findCode(text: string): FoundCode | null {
  const wanted = text
    .trim()
    .toUpperCase()
    .replace(/\(.*\)$/, '')
    .replaceAll(/[\s-]/g, '_');
  const digits = /^(?:SLU_?)?(\d{4})$/.exec(wanted)?.[1];
  if (digits === undefined) return codeOf(wanted);
  for (const [word, entry] of BY_WORD) if (entry.code === `SLU-${digits}`) return { word, entry };
  return null;
}

/** Words near to what was typed: with it inside, or a typing error away. At most `limit`, the best first. */
export function nearCodes(text: string, limit = 5): readonly FoundCode[] {
  const wanted = text.trim().toUpperCase().replaceAll(/[\s-]/g, '_');
  const found = new Set<string>();
  const close = nearest(wanted, WORDS);
  if (close !== null) found.add(close);
  const parts = wanted.split('_').filter((part) => part.length >= 3);
  for (const word of WORDS) if (wanted !== '' && word.includes(wanted)) found.add(word);
  for (const word of WORDS) if (parts.some((part) => word.includes(part))) found.add(word);
  return [...found]
    .slice(0, limit)
    .map((word) => codeOf(word))
    .filter((each) => each !== null);
}
