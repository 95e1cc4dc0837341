import { describe, expect, it } from 'vitest';
import { matchesGlobs } from '../reader/table-globs.ts';
import { changeTables } from './config-tables.ts';

const wants = (globs: readonly string[], table: string): boolean => {
  const [schema = '', name = ''] = table.split('.');
  return matchesGlobs(globs, schema, name);
};
const change = (text: string, add: readonly string[], remove: readonly string[] = []): string =>
  changeTables(text, 'sluice.yaml', { add, remove }, wants);

describe('a changed list of tables', () => {
  const text = '# shop\nname: shop\nsource:\n  tables: ["public.o*", "!public.old"] # ours\n  slot: s\n';

  it('takes what is added and keeps the rest, comments too', () => {
    expect(change(text, ['public.customers'])).toBe(
      '# shop\nname: shop\nsource:\n  tables: [ public.o*, "!public.old", public.customers ] # ours\n  slot: s\n',
    );
    expect(change(text, ['public.orders'])).toBe(text);
    expect(change(text, ['public.old'])).toContain('[ public.o* ]');
  });

  it('leaves out what is removed', () => {
    expect(change(text, [], ['public.orders'])).toContain('[ public.o*, "!public.old", "!public.orders" ]');
    expect(change(text, [], ['public.other_schema'])).toContain('"!public.other_schema"');
    expect(change('source:\n  tables:\n    - a.b\n    - a.c\n', [], ['a.b'])).toBe('source:\n  tables:\n    - a.c\n');
    expect(change('name: x\n', [], ['public.t'])).toContain('tables: [ public.*, "!public.t" ]');
  });

  it('is not made where the list is no list', () => {
    expect(() => change('source: {tables: "${TABLES}"}\n', ['public.t'])).toThrow(/cannot be changed/);
  });
});
