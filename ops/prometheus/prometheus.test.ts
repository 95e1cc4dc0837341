/** Alerts and dashboard ask only for metrics that exist, with labels that they have. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createMetrics } from '../../services/runtime/metrics.ts';

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

const rules = (parse(read('alerts.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const panels = (JSON.parse(read('../grafana/sluice.json')) as { panels: { targets?: { expr: string }[] }[] }).panels;
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...panels.flatMap((panel) => (panel.targets ?? []).map(({ expr }) => expr)),
];

describe('alerts and dashboard', () => {
  const known = new Map(
    (createMetrics().registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[]).map(
      ({ name, labelNames }) => [name, labelNames],
    ),
  );

  it('ask for metrics that exist', () => {
    const asked = expressions.flatMap((expr) => expr.match(/\b(sluice|process|nodejs)_[a-z0-9_]+/g) ?? []);
    expect(asked.length).toBeGreaterThan(20);
    expect(asked.map((name) => name.replace(/_bucket$/, '')).filter((name) => !known.has(name))).toEqual([]);
  });

  it('select by labels that the metric has', () => {
    const offences = expressions.flatMap((expr) =>
      [...expr.matchAll(/\b(sluice_[a-z0-9_]+)\{([^}]*)\}/g)].flatMap(([, name = '', selector = '']) =>
        [...selector.matchAll(/([a-z_]+)\s*(?:=|!)/g)]
          .map((match) => match[1] ?? '')
          .filter((label) => !(known.get(name.replace(/_bucket$/, '')) ?? []).includes(label))
          .map((label) => `${name}{${label}}`),
      ),
    );
    expect(offences).toEqual([]);
  });

  it('every metric of ours is on the dashboard or in an alert', () => {
    const text = expressions.join('\n') + read('../grafana/sluice.json');
    expect([...known.keys()].filter((name) => name.startsWith('sluice_') && !text.includes(name))).toEqual([]);
  });

  it('every alert says what it is, how bad, and what to do', () => {
    for (const { labels, annotations } of rules) {
      expect(['page', 'warn']).toContain(labels.severity);
      expect(annotations.summary).toMatch(/\S/);
      expect(annotations.description.length).toBeGreaterThan(40);
    }
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });
});
