import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CODES, findCode, nearCodes } from '../../runtime/codes.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';

interface Flags {
  readonly list?: boolean;
  readonly json?: boolean;
}

/** `sluice explain`: the page of a code, by its number or its word. */
export const explainCommand: CommandModule = (program, context) => {
  program
    .command('explain [code]')
    .description('what an error or state means and the command that mends it: SLU-6010, or SLOT_LOST')
    .option('--list', 'every code with its meaning')
    .option('--json', 'the entry as one JSON object')
    .action(context.run((code: string | undefined, flags: Flags) => Promise.resolve(explain(code, flags, context))));
};

function explain(text: string | undefined, flags: Flags, context: CliContext): ExitCode {
  if (flags.list === true || text === undefined) return list(flags, context);
  const found = findCode(text);
  if (found === null) {
    const near = nearCodes(text).map(({ word, entry }) => `${entry.code} ${word}`);
    throw new ConfigError(
      `there is no code '${text}'`,
      near.length === 0 ? '`sluice explain --list` shows all of them' : `near to it: ${near.join(', ')}`,
    );
  }
  const { word, entry } = found;
  if (flags.json === true) context.out(`${JSON.stringify({ word, ...entry })}\n`);
  else context.out(readFileSync(pageOf(entry.code), 'utf8'));
  return ExitCode.clean;
}

function list(flags: Flags, context: CliContext): ExitCode {
  const all = Object.entries(CODES).map(([word, entry]) => ({ word, ...entry }));
  if (flags.json === true) context.out(`${JSON.stringify(all)}\n`);
  else for (const { code, word, title } of all) context.out(`${code}  ${word.padEnd(26)} ${title}\n`);
  return ExitCode.clean;
}

/** The pages stand in docs/codes of the package, whether this runs from the sources or from dist. */
function pageOf(code: string): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (;;) {
    const page = join(folder, 'docs', 'codes', `${code}.md`);
    if (existsSync(page)) return page;
    if (dirname(folder) === folder) break;
    folder = dirname(folder);
  }
  throw new SluiceError('PATH_MISSING', `the page docs/codes/${code}.md is not there`, {
    exit: ExitCode.findings,
    remedy: 'install sluice whole: its docs folder belongs to it',
  });
}
