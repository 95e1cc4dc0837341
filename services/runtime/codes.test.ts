import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { sourceFiles } from '../../test/support/source-files.ts';
import { CODES, codeOf, findCode, nearCodes } from './codes.ts';
import type { CodeEntry } from './codes/code-entry.ts';

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = join(REPOSITORY, 'docs', 'codes');
const entries: readonly (readonly [string, CodeEntry])[] = Object.entries(CODES);
const pages = readdirSync(FOLDER).filter((name) => name.startsWith('SLU-'));
const pageText = (name: string): string => readFileSync(join(FOLDER, name), 'utf8');

describe('the table of codes', () => {
  it('gives each word a number of its own', () => {
    expect(new Set(entries.map(([, { code }]) => code)).size).toBe(entries.length);
    expect(entries.filter(([, { code }]) => !/^SLU-\d{4}$/.test(code))).toEqual([]);
    expect(entries.filter(([, { title, remedy }]) => title === '' || remedy === '')).toEqual([]);
  });

  it('has one page a code, and no page without one', () => {
    expect(pages.toSorted()).toEqual(entries.map(([, { code }]) => `${code}.md`).toSorted());
  });

  it('agrees with the pages in word, title, exit code and whether a retry helps', () => {
    const differing = entries.filter(([word, { code, title, exit, retry }]) => {
      const text = pageText(`${code}.md`);
      const headed = text.startsWith(`# ${code} ${word}: ${title}\n`);
      const exits = exit === 0 || text.includes(`Exit code ${exit}.`);
      const retries = exit === 0 || text.includes('It may go away by itself') === retry;
      return !(headed && exits && retries);
    });
    expect(differing.map(([word]) => word)).toEqual([]);
  });

  it('has pages that say what happened, what is safe, the one command, and how to know', () => {
    const parts = ['## What happened', '## What is safe', '## The one command', '## How to know that it worked'];
    const lacking = pages.filter((page) => {
      const text = pageText(page);
      const places = parts.map((part) => text.indexOf(`\n${part}\n`));
      const inOrder = places.every((place, index) => place > (places[index - 1] ?? 0));
      return !inOrder || !/\n```sh\n\S[^\n]*\n```\n/.test(text);
    });
    expect(lacking).toEqual([]);
  });

  it('knows every word that the services throw by name', () => {
    const thrown = sourceFiles('services')
      .filter(({ path }) => !path.endsWith('.test.ts'))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/new SluiceError\(\s*'([A-Z_]+)'/g)].map((match) => ({ path, word: match[1] ?? '' })),
      );
    expect(thrown.length).toBeGreaterThan(5);
    // A new word goes into one of services/runtime/codes/, with a page docs/codes/SLU-nnnn.md and a line in its README.md.
    expect(thrown.filter(({ word }) => codeOf(word) === null)).toEqual([]);
  });

  it('links from the index to every page', () => {
    const index = pageText('README.md');
    expect(entries.filter(([word, { code }]) => !index.includes(`| [${code}](${code}.md) | ${word} |`))).toEqual([]);
    const links = [...index.matchAll(/\]\(([^)]+)\)/g)].map((match) => match[1] ?? '');
    expect(links.filter((link) => !existsSync(join(FOLDER, link)))).toEqual([]);
  });
});

describe('a code', () => {
  it.each(['SLU-6010', 'slu-6010', '6010', 'SLOT_LOST', 'slot_lost', 'slot lost'])('is found as %j', (text) => {
    expect(findCode(text)?.word).toBe('SLOT_LOST');
  });

  it('is found by the words of the system and of PostgreSQL', () => {
    expect(codeOf('ECONNREFUSED')?.word).toBe('CONNECTION_FAILED');
    expect(codeOf('28P01')?.word).toBe('SOURCE_AUTHENTICATION');
    expect(codeOf('toString')).toBeNull();
    expect(findCode('SLU-0000')).toBeNull();
  });

  it('that does not exist brings the near ones', () => {
    expect(nearCodes('SLOT_LOTS')[0]?.word).toBe('SLOT_LOST');
    expect(nearCodes('invalidated').map(({ word }) => word)).toContain('SLOT_INVALIDATED');
    expect(nearCodes('zzzzzz')).toEqual([]);
  });
});
