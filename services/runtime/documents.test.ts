/** Documents that name files, keys, metrics and commands are held to what is there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { CONFIG_SCHEMA, isField, type Section } from './config-schema.ts';
import { createMetrics } from './metrics.ts';

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(join(REPOSITORY, path), 'utf8');
const decisions = readdirSync(join(REPOSITORY, 'docs/decisions')).map((name) => `docs/decisions/${name}`);
const documents = ['README.md', 'docs/architecture.md', 'docs/operations.md', ...decisions];

describe.each(documents)('%s', (document) => {
  const text = read(document);

  it('names files that exist', () => {
    const named = [
      ...text.matchAll(/`((?:services|lakehouse|contracts|ops|test|docs)\/[\w./-]+\.(?:ts|md|yml|mjs))`/g),
    ];
    const missing = named.map((match) => match[1] ?? '').filter((path) => !existsSync(join(REPOSITORY, path)));
    expect(missing).toEqual([]);
  });

  it('links to what is there', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map((match) => match[1] ?? '');
    const broken = links.filter((link) => !existsSync(resolve(REPOSITORY, dirname(document), link)));
    expect(broken).toEqual([]);
  });
});

describe('docs/operations.md', () => {
  const text = read('docs/operations.md');

  it('names every key of sluice.yaml, and no other', () => {
    const keys = keysOf(CONFIG_SCHEMA, '');
    const rows = [...text.matchAll(/^\| `(?!sluice_)([\w.]+)` \|/gm)].map((match) => match[1] ?? '');
    expect(rows.toSorted()).toEqual(keys.toSorted());
  });

  it('names every metric', async () => {
    const metrics = await createMetrics().registry.getMetricsAsJSON();
    const ours = metrics.map(({ name }) => name).filter((name) => name.startsWith('sluice_'));
    expect(ours.length).toBeGreaterThan(10);
    expect(ours.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });
});

function keysOf(section: Section, prefix: string): readonly string[] {
  return Object.entries(section).flatMap(([key, node]) =>
    isField(node) ? [`${prefix}${key}`] : keysOf(node, `${prefix}${key}.`),
  );
}
