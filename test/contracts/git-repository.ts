/** A git repository in a temporary folder. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface Repository {
  readonly folder: string;
  git(...args: string[]): string;
  write(path: string, text: string): void;
  remove(path: string): void;
  /** Commits all and returns the sha. */
  commit(message: string): string;
  dispose(): void;
}

export function createRepository(): Repository {
  const repository = openRepository(realpathSync(mkdtempSync(join(tmpdir(), 'contracts-git-'))));
  repository.git('init', '-q', '-b', 'main');
  return repository;
}

export function openRepository(folder: string): Repository {
  const git = (...args: string[]): string =>
    execFileSync(
      'git',
      [
        '-c',
        'user.name=t',
        '-c',
        'user.email=t@example.org',
        '-c',
        'commit.gpgsign=false',
        '-c',
        'tag.gpgsign=false',
        ...args,
      ],
      { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
    ).trim();
  return {
    folder,
    git,
    write(path, text) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    },
    remove: (path) => rmSync(join(folder, path)),
    commit(message) {
      git('add', '-A');
      git('commit', '-q', '-m', message);
      return git('rev-parse', 'HEAD');
    },
    dispose: () => rmSync(folder, { recursive: true, force: true }),
  };
}
