import { describe, expect, it } from 'vitest';
import { grantsSql, quoteIdentifier, quoteLiteral } from './grants.ts';
import type { GrantsRequest, ServerKind } from './grants.ts';

const request: GrantsRequest = {
  server: 'plain',
  database: 'shop',
  role: 'sluice',
  publication: 'sluice_shop',
  slot: 'sluice_shop',
  tables: [
    { schema: 'public', table: 'orders' },
    { schema: 'sales', table: 'Order "Items"' },
  ],
  wholeSchemas: ['public'],
  major: 17,
};
const statements = (sql: string): string => sql.replace(/^--.*$/gm, '');

describe('grants', () => {
  it('quotes every identifier and every text', () => {
    expect(quoteIdentifier('a"b')).toBe('"a""b"');
    expect(quoteLiteral("o'clock")).toBe("'o''clock'");
    expect(quoteLiteral('back\\slash')).toBe(" E'back\\\\slash'");
    expect(() => quoteIdentifier('')).toThrow(RangeError);
    expect(() => quoteIdentifier('a\0')).toThrow(RangeError);
  });

  it('publishes a whole schema and single tables of others', () => {
    expect(statements(grantsSql(request))).toContain(
      'create publication "sluice_shop" for table "sales"."Order ""Items""", tables in schema "public"',
    );
  });

  it.each<[ServerKind, number]>([
    ['plain', 14],
    ['rds', 17],
    ['neon', 17],
  ])("names today's tables where whole schemas cannot be published (%s %i)", (server, major) => {
    const sql = grantsSql({ ...request, server, major });
    expect(statements(sql)).toContain('for table "public"."orders", "sales"."Order ""Items""" with');
    expect(statements(sql)).not.toContain('in schema "public" with');
    expect(sql).toContain('alter publication "sluice_shop" add table');
  });

  it('gives the right to replicate as each service wants it', () => {
    const of = (server: ServerKind): string => statements(grantsSql({ ...request, server }));
    for (const server of ['plain', 'cloud-sql', 'azure', 'supabase'] as const) {
      expect(of(server)).toContain('create role "sluice" login replication;');
    }
    expect(of('rds')).toContain('create role "sluice" login;');
    expect(of('rds')).toContain('grant rds_replication to "sluice";');
    expect(of('neon')).not.toContain('create role');
  });

  it('grants nothing that writes', () => {
    for (const server of ['plain', 'rds', 'cloud-sql', 'azure', 'supabase', 'neon'] as const) {
      expect(statements(grantsSql({ ...request, server }))).not.toMatch(
        /\b(superuser|createrole|createdb|bypassrls|insert|update|delete|truncate|all privileges)\b/i,
      );
    }
  });

  it('lets no name escape from a comment, a quote or a block', () => {
    // The slot's name stands in comments only, the role's in an anonymous block.
    const sql = grantsSql({ ...request, slot: 's\ndrop table t;', role: 'r$grants$; drop table t; --' });
    expect(sql.split('\n').filter((line) => line.startsWith('drop'))).toEqual([]);
    expect(sql).toContain('do $grantsx$');
  });
});
