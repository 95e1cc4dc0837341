import { expect, it } from 'vitest';
import { columnFault } from './column-names.ts';

const table = { schema: 'public', table: 't' };

it('names the columns that the lake cannot keep apart, and those named as its own', () => {
  expect(columnFault(table, ['id', 'name', 'Name2', 'a b'])).toBeNull();
  expect(columnFault(table, ['id', 'name', 'NAME'])?.message).toContain('"name" and "NAME"');
  expect(columnFault(table, ['a b', 'a_b'])?.message).toContain('NAME_CLASH');
  expect(columnFault(table, ['id', '_Sluice_LSN'])?.message).toContain('"_Sluice_LSN"');
  expect(columnFault(table, ['id', '_sluice_deleted'])?.message).toContain('"_sluice_deleted"');
  expect(columnFault(table, ['id', '_sluice_row_hash'])?.message).toContain('"_sluice_row_hash"');
  expect(columnFault(table, ['id', '_Change_Type'])?.message).toContain('"_Change_Type"');
  expect(columnFault(table, ['a', 'A'])?.remedy).toContain('"!public.t"');
});
