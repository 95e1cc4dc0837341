import { describe, expect, it } from 'vitest';
import { exactGlob, isExact, matchesGlobs, schemaGlob } from './table-globs.ts';

const takes = (glob: string, name: string): boolean => {
  const [schema = '', table = ''] = name.split('.');
  return matchesGlobs([glob], schema, table);
};

describe('globs of source.tables', () => {
  it('take any characters and one character, and the last that matches decides', () => {
    expect(takes('public.*', 'public.orders')).toBe(true);
    expect(takes('public.order?', 'public.orders')).toBe(true);
    expect(takes('public.order?', 'public.order')).toBe(false);
    expect(takes('public.a+b', 'public.aab')).toBe(false);
    expect(matchesGlobs(['public.*', '!public.audit_*', 'public.audit_kept'], 'public', 'audit_log')).toBe(false);
    expect(matchesGlobs(['public.*', '!public.audit_*', 'public.audit_kept'], 'public', 'audit_kept')).toBe(true);
    expect(matchesGlobs(['public.*'], 'public', 'new\nline')).toBe(true);
  });

  it.each(['star*', 'what?', 'back\\slash', 'a+b', '(x)', 'new\nline', 'plain'])(
    'name the table %j alone, whatever its name has in it',
    (table) => {
      const glob = exactGlob({ schema: 'public', table });
      expect(matchesGlobs([glob], 'public', table)).toBe(true);
      for (const other of ['starfish', 'whats', 'backslash', 'aab', 'x', 'plain_'])
        expect(matchesGlobs([glob], 'public', other)).toBe(false);
      expect(isExact(glob)).toBe(true);
    },
  );

  it('name a schema that begins with the sign of what is left out', () => {
    expect(matchesGlobs([schemaGlob('!odd')], '!odd', 't')).toBe(true);
    expect(matchesGlobs([schemaGlob('s*')], 'sales', 't')).toBe(false);
    expect(isExact(schemaGlob('public'))).toBe(false);
    expect(isExact('public.\\*')).toBe(true);
  });
});
