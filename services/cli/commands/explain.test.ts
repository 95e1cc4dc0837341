import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { CODES } from '../../runtime/codes.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CliContext } from '../command.ts';
import { COMMANDS } from '../commands.ts';
import { explainCommand } from './explain.ts';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));

interface Ended {
  readonly out: string;
  readonly exit: ExitCode | null;
  readonly error: unknown;
}

async function sluice(...args: string[]): Promise<Ended> {
  let out = '';
  let exit: ExitCode | null = null;
  let error: unknown = null;
  const context: CliContext = {
    env: {},
    cwd: REPOSITORY,
    out: (text) => void (out += text),
    write: () => Promise.reject(new Error('there is not so much to write')),
    err: () => undefined,
    isTty: false,
    loadConfig: () => {
      throw new Error('no configuration is needed');
    },
    signal: new AbortController().signal,
    run:
      (action) =>
      async (...given) => {
        try {
          exit = await action(...given);
        } catch (thrown) {
          error = thrown;
        }
      },
  };
  const program = new Command('sluice').exitOverride();
  explainCommand(program, context);
  await program.parseAsync(['node', 'sluice', 'explain', ...args]);
  return { out, exit, error };
}

describe('sluice explain', () => {
  it('prints the page of a number or a word', async () => {
    const page = readFileSync(join(REPOSITORY, 'docs/codes/SLU-6010.md'), 'utf8');
    expect(await sluice('SLU-6010')).toEqual({ out: page, exit: ExitCode.clean, error: null });
    expect((await sluice('slot_lost')).out).toBe(page);
  });

  it('names what is near to a wrong one', async () => {
    const { error, out } = await sluice('SLOT_LOTS');
    expect(out).toBe('');
    expect(error).toMatchObject({ exit: ExitCode.usage, remedy: expect.stringContaining('SLU-6010 SLOT_LOST') });
  });

  it('lists every code, as lines and as JSON', async () => {
    const lines = (await sluice('--list')).out.trimEnd().split('\n');
    expect(lines).toHaveLength(Object.keys(CODES).length);
    expect(JSON.parse((await sluice('--list', '--json')).out)).toHaveLength(lines.length);
    expect(JSON.parse((await sluice('WAL_LEVEL', '--json')).out)).toMatchObject({ code: 'SLU-2012', exit: 3 });
  });
});

describe('documents', () => {
  it('name only commands that exist', () => {
    const program = new Command('sluice');
    const inert = { run: () => () => Promise.resolve() } as unknown as CliContext;
    for (const register of COMMANDS) register(program, inert);
    const known = new Set(program.commands.map((command) => command.name()));
    const folder = join(REPOSITORY, 'docs/codes');
    const documents = ['README.md', 'CHANGELOG.md', 'docs/operations.md', 'docs/architecture.md'];
    const texts = [
      ...documents.map((name) => ({ name, text: readFileSync(join(REPOSITORY, name), 'utf8') })),
      ...readdirSync(folder).map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') })),
      ...Object.entries(CODES).map(([name, { remedy }]) => ({ name, text: remedy })),
    ];
    const said = texts.flatMap(({ name, text }) =>
      [...text.matchAll(/(?:`|^|&& |npx )sluice ([a-z]+)/gm)].map((match) => ({ name, command: match[1] ?? '' })),
    );
    expect(said.length).toBeGreaterThan(100);
    expect(said.filter(({ command }) => !known.has(command))).toEqual([]);
  });
});
