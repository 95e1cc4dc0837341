import { describe, expect, it } from 'vitest';
import { codeOf, findCode } from '../runtime/codes.ts';
import { differenceFound, passingTrouble, troubleExit } from './passing-trouble.ts';

describe('a trouble that passes by itself', () => {
  it.each([
    ['STORE_DISK_FULL', 'DISK_FULL(lake)'],
    ['LOG_DISK_FULL', 'DISK_FULL(log)'],
    ['ENOSPC', 'DISK_FULL(state)'],
    ['SOURCE_AUTHENTICATION', 'CREDENTIALS(source)'],
    ['SOURCE_TLS', 'CREDENTIALS(source)'],
    ['LOG_AUTHENTICATION', 'CREDENTIALS(log)'],
    ['STORE_ACCESS_DENIED', 'CREDENTIALS(lake)'],
  ])('%s is %s, with a page and a remedy', (code, state) => {
    const trouble = passingTrouble(code, 'why');
    expect(trouble).toMatchObject({ state, detail: 'why' });
    expect(trouble?.remedy).not.toBe('');
    expect(findCode(state)?.entry).toBe(codeOf(state)?.entry);
    expect(troubleExit([state])).toBe(3);
  });

  it('is not made of what has no place', () => {
    expect(passingTrouble('SOURCE_LOST', 'why')).toBeNull();
    expect(passingTrouble('constructor', 'why')).toBeNull();
  });

  it('ends `sluice status` by the worst; a table that is handed over is no failure', () => {
    const found = differenceFound('public.t', 2, 0);
    expect(found).toMatchObject({ state: 'VERIFY_FAILED', remedy: 'sluice repair public.t' });
    expect(troubleExit([])).toBe(0);
    expect(troubleExit(['OWNER_CONFLICT'])).toBe(0);
    expect(troubleExit([found.state])).toBe(1);
    expect(troubleExit([found.state, 'DISK_FULL(log)'])).toBe(3);
  });
});
