/** The page of a state as a person reads it: the command that it prints, and whether the service is to be stopped for it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../../services/runtime/codes.ts';
import { REPOSITORY } from '../support/source-files.ts';

export interface StatePage {
  readonly code: string;
  /** Arguments behind `sluice`, with TABLE replaced. */
  readonly command: readonly string[];
  readonly stopFirst: boolean;
}

/** @throws Error when the word has no page, or the page no command */
export function statePage(word: string, table: string): StatePage {
  const found = codeOf(word);
  if (found === null) throw new Error(`${word} has no code`);
  const { code } = found.entry;
  const text = readFileSync(join(REPOSITORY, 'docs/codes', `${code}.md`), 'utf8');
  const [, section = ''] = text.split('## The one command');
  const command = /```sh\nsluice ([^\n]+)\n/.exec(section)?.[1];
  if (command === undefined) throw new Error(`${code} prints no sluice command`);
  return {
    code,
    command: command.replaceAll('TABLE', table).split(' '),
    stopFirst: /stop the service/i.test(section),
  };
}
