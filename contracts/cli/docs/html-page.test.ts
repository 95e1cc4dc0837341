import { createHash } from 'node:crypto';

import { describe, expect, it } from 'vitest';

import { parseContract } from '../../engine/parse.ts';
import { lineageOf, versionsOf } from './catalogue.ts';
import type { CatalogueEntry } from './catalogue.ts';
import { indexPage, tablePage } from './html-page.ts';

const HOSTILE = '</td></script><script>alert(1)</script><img src=x onerror=alert(2)>&\u202e';
const contractText = (version: string, more = ''): string => `apiVersion: v3.1.0
kind: DataContract
id: shop.public.orders
version: ${version}
status: active
description: {purpose: '${HOSTILE}'}
schema:
  - name: orders
    physicalName: public.orders
    description: '${HOSTILE}'
    quality:
      - {id: odd_id, type: custom, engine: cel, implementation: 'row.id > 0 || row.note != "${HOSTILE.replaceAll('\u202e', '')}"', description: '${HOSTILE}'}
    properties:
      - {id: c1, name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}
      - {id: c2, name: '${HOSTILE}', logicalType: string, physicalType: text, classification: restricted, relationships: [{to: customers.id}]}
      - id: c3
        name: items
        logicalType: array
        physicalType: jsonb
        items: {logicalType: object, properties: [{name: qty, logicalType: integer, logicalTypeOptions: {minimum: 1}}]}
${more}  - name: lines
    physicalName: public.lines
    properties:
      - {id: l1, name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}
`;

function entryOf(): CatalogueEntry {
  const parse = (version: string, more?: string) => {
    const { contract } = parseContract(contractText(version, more), 'orders.odcs.yaml');
    if (contract === null) throw new Error('the contract of the test is not valid');
    return contract;
  };
  const contract = parse('1.1.0', '      - {id: c4, name: added, logicalType: string, physicalType: text}\n');
  const [table] = contract.tables;
  if (table === undefined) throw new Error('no table');
  const versions = versionsOf(contract, [{ label: 'v1.0.0', contract: parse('1.0.0') }]);
  return { contract, table, page: 'public.orders', owner: 'sales', lineage: lineageOf(contract, table), versions };
}

const PAGES: readonly (readonly [string, string])[] = [
  ['a table', tablePage(entryOf(), (name) => (name === 'customers' ? 'public.customers' : null))],
  ['the list', indexPage([entryOf()])],
];

describe('a page of the catalogue', () => {
  it.each(PAGES)('of %s holds hostile text as text, and loads nothing', (_name, html) => {
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(html).not.toContain('<img');
    expect(html).not.toContain('\u202e');
    const scripts = [...html.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(([, text = '']) => text);
    const styles = [...html.matchAll(/<style>([^]*?)<\/style>/g)].map(([, text = '']) => text);
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1] ?? '';
    expect(policy).toContain("default-src 'none'");
    for (const text of [...scripts, ...styles])
      expect(policy).toContain(createHash('sha256').update(text).digest('base64'));
    expect(html).not.toMatch(/\s(?:src|style|on\w+)=["']|@import|url\(|href="(?!#|[\w.%~-]+\.(?:html|md)[#"])/i);
  });

  it('leads to columns, inner fields, rules and the tables that a column refers to', () => {
    const html = PAGES[0]?.[1] ?? '';
    const ids = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id));
    for (const [, target = ''] of html.matchAll(/href="#([^"]*)"/g))
      expect(ids).toContain(
        decodeURIComponent(target).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
      );
    expect(ids).toContain('column-items[].qty');
    expect(ids).toContain('rule-odd_id');
    expect(html).toContain('href="public.customers.html#column-id"');
  });

  it('tells of its own table only what a version changed', () => {
    const html = PAGES[0]?.[1] ?? '';
    const log = html.slice(html.indexOf('id="versions"'));
    expect(log).toContain('<code>COLUMN_ADDED</code> orders.added: added as text');
    expect(log).not.toContain('lines');
  });
});
