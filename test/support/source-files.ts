/** The repository's own sources as a graph of imports, for the layer rules. Found by text: every import stands on one line start. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Import {
  /** Relative to the repository when it is a file of ours, else the package's name. */
  readonly target: string;
  readonly kind: 'file' | 'package';
  /** `import type`, which leaves no trace at run time. */
  readonly typeOnly: boolean;
}

export interface SourceFile {
  /** Relative to the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly Import[];
}

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

const IMPORT = /^\s*(?:import|export)\s+(type\s+)?(?:[^'"`;]*?\sfrom\s+)?'([^']+)'/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*'([^']+)'\s*\)/g;

/** All TypeScript files below these folders, tests included. */
export function sourceFiles(...folders: readonly string[]): SourceFile[] {
  return folders.flatMap((folder) => [...walk(join(REPOSITORY, folder))]).map(readSource);
}

function* walk(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === 'node_modules' || entry.name === 'dist' || entry.name.startsWith('.')) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (/\.tsx?$/.test(entry.name)) yield path;
  }
}

function readSource(absolute: string): SourceFile {
  const path = relative(REPOSITORY, absolute).split(sep).join('/');
  const text = readFileSync(absolute, 'utf8');
  const imports = [
    ...[...text.matchAll(IMPORT)].map((match) => importOf(path, match[2] ?? '', match[1] !== undefined)),
    ...[...text.matchAll(DYNAMIC_IMPORT)].map((match) => importOf(path, match[1] ?? '', false)),
  ].filter(({ target }) => !target.startsWith('node:'));
  return { path, text, imports };
}

function importOf(from: string, specifier: string, typeOnly: boolean): Import {
  if (specifier.startsWith('.')) {
    return { target: posix.normalize(posix.join(dirname(from), specifier)), kind: 'file', typeOnly };
  }
  const parts = specifier.split('/');
  const target = specifier.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] ?? specifier);
  return { target: specifier.startsWith('node:') ? specifier : target, kind: 'package', typeOnly };
}

/** Cycles of imports that exist at run time, each as the path around it. Empty when there is none. */
export function importCycles(files: readonly SourceFile[]): string[][] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const state = new Map<string, 'open' | 'done'>();
  const trail: string[] = [];
  const cycles: string[][] = [];
  const visit = (path: string): void => {
    state.set(path, 'open');
    trail.push(path);
    for (const { target, kind, typeOnly } of byPath.get(path)?.imports ?? []) {
      if (kind !== 'file' || typeOnly || !byPath.has(target)) continue;
      if (state.get(target) === 'open') cycles.push([...trail.slice(trail.indexOf(target)), target]);
      else if (!state.has(target)) visit(target);
    }
    trail.pop();
    state.set(path, 'done');
  };
  for (const { path } of files) if (!state.has(path)) visit(path);
  return cycles;
}
