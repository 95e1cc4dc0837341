/** What the commands' argument lists share: registration, formats, choices, the contracts to work on. */
import { dirname, resolve } from 'node:path';
import { Option } from 'commander';
import type { Command } from 'commander';
import { CommandError, EXIT } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import type { Ports } from './ports.ts';
import { FORMATS } from './report/write-report.ts';
import type { Format } from './report/write-report.ts';
import { readSettings } from './settings.ts';
import type { Settings } from './settings.ts';

/** What a command's registration gets. */
export interface Registry {
  readonly program: Command;
  readonly ports: Ports;
  /** Wraps an action: its exit code is the command's. */
  readonly action: <A extends readonly unknown[]>(
    work: (...args: A) => Promise<ExitCode>,
  ) => (...args: A) => Promise<void>;
}
export type Register = (registry: Registry) => void;

export const formatOption = (): Option =>
  new Option('--format <format>', 'how to print (default: text)').choices(FORMATS);

/** The contracts to work on, and the settings that stand beside them. */
export function openSettings(
  ports: Ports,
  paths: readonly string[],
  folder: string | undefined,
): { readonly paths: readonly string[]; readonly settings: Settings } {
  const chosen = paths.length > 0 ? paths : [folder ?? 'contracts'];
  const folders = [...(folder === undefined ? [] : [folder]), ...chosen].map((given) => {
    const path = resolve(ports.cwd, given);
    return ports.files.kind(path) === 'file' ? dirname(path) : path;
  });
  return { paths: chosen, settings: readSettings(ports, [...folders, resolve(ports.cwd, 'contracts')]) };
}

/** A choice that may come from the settings file. @throws CommandError USAGE */
export function choice<T extends string>(
  name: string,
  given: string | undefined,
  fallback: T,
  allowed: readonly T[],
): T {
  if (given === undefined) return fallback;
  const found = allowed.find((word) => word.toLowerCase() === given.toLowerCase());
  if (found !== undefined) return found;
  throw new CommandError('USAGE', EXIT.usage, `${name} ${given} is unknown`, `it is one of ${allowed.join(', ')}`);
}

export const formatOf = (given: string | undefined): Format => choice('--format', given, 'text', FORMATS);
