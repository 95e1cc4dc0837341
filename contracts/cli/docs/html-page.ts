/** A catalogue page as one HTML file: no script, nothing loaded from elsewhere. */
import type { Column, Rule } from '../../engine/model.ts';
import { isClassified } from '../../engine/model.ts';
import { lakeMapping } from '../../engine/privacy.ts';
import { deltaTypeText } from '../../engine/type-table.ts';
import type { CatalogueEntry, VersionEntry } from './catalogue.ts';

const STYLE = `
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1.5rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
th,td{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
th{font-weight:600;white-space:nowrap}code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{font-weight:600}dd{margin:0}
.lineage{display:flex;flex-wrap:wrap;gap:.5rem;list-style:none;padding:0;align-items:stretch}
.lineage li{border:1px solid var(--line);border-radius:.4rem;padding:.5rem .8rem;background:var(--soft)}
.lineage li+li::before{content:"\\2192";margin-right:.6rem}
.tag{border:1px solid var(--line);border-radius:.3rem;padding:0 .35rem;font-size:.8rem;margin-right:.25rem}
`;

export function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title><style>${STYLE}</style></head>
<body>
${body}
</body>
</html>
`;
}

export function indexPage(entries: readonly CatalogueEntry[]): string {
  const rows = entries.map(({ contract, table, page: name, owner }) => [
    `<a href="${escape(encodeURIComponent(`${name}.html`))}">${escape(name)}</a>`,
    escape(contract.version),
    escape(contract.status),
    escape(owner ?? ''),
    String(table.columns.length),
    String(table.rules.length),
    escape(table.description ?? contract.purpose ?? ''),
  ]);
  const grid = htmlTable(['Table', 'Version', 'Status', 'Owner', 'Columns', 'Rules', 'What it is'], rows);
  return page('Data contracts', `<h1>Data contracts</h1>\n${grid}`);
}

/** `pageOf`: the page of another table by name, or null. */
export function tablePage(entry: CatalogueEntry, pageOf: (table: string) => string | null): string {
  const { contract, table } = entry;
  const facts: [string, string | null][] = [
    ['Contract', `${contract.id} ${contract.version} (${contract.status})`],
    ['Owner', entry.owner],
    ['Domain', contract.domain],
    ['Compatibility', table.compatibility ?? 'FORWARD_TRANSITIVE'],
    ['Unknown columns', table.unknownColumns ?? 'evolve'],
    ['Purpose', contract.purpose],
    ['Usage', contract.usage],
    ['Limitations', contract.limitations],
  ];
  const list = facts.flatMap(([name, value]) => (value === null ? [] : [`<dt>${name}</dt><dd>${escape(value)}</dd>`]));
  const steps = entry.lineage.map(
    ({ stage, name, detail }) =>
      `<li><small>${stage}</small><br><code>${escape(name)}</code>${detail === '' ? '' : `<br><small>${escape(detail)}</small>`}</li>`,
  );
  const sections = [
    `<p><a href="index.html">All tables</a></p>`,
    `<h1>${escape(entry.page)}</h1>`,
    table.description === null ? '' : `<p>${escape(table.description)}</p>`,
    `<dl>${list.join('')}</dl>`,
    `<h2>Lineage</h2>\n<ol class="lineage">${steps.join('')}</ol>`,
    `<h2>Columns</h2>\n${htmlTable(
      ['Column', 'Type', 'Lake', 'Required', 'Notes'],
      table.columns.map((column) => columnCells(column, pageOf)),
    )}`,
    table.rules.length === 0
      ? ''
      : `<h2>Rules</h2>\n${htmlTable(['Rule', 'On', 'Severity', 'What'], table.rules.map(ruleCells))}`,
    contract.sla.length === 0
      ? ''
      : `<h2>Service levels</h2>\n${htmlTable(
          ['Promise', 'Value', 'On'],
          contract.sla.map(({ property, value, unit, element }) =>
            [property, `${String(value)} ${unit ?? ''}`.trim(), element ?? ''].map(escape),
          ),
        )}`,
    `<h2>Change log</h2>\n${entry.versions.map(versionHtml).join('\n')}`,
  ];
  return page(entry.page, sections.filter((section) => section !== '').join('\n'));
}

function columnCells(column: Column, pageOf: (table: string) => string | null): string[] {
  const mapping = lakeMapping(column, null);
  const tags = [
    column.keyPosition > 0 ? `key ${column.keyPosition}` : null,
    column.partitionPosition > 0 ? `partition ${column.partitionPosition}` : null,
    column.unique ? 'unique' : null,
    column.deprecated ? 'deprecated' : null,
    isClassified(column)
      ? `classified${column.piiAction === null ? '' : `: ${column.piiAction} ${column.piiStage}`}`
      : null,
  ].flatMap((tag) => (tag === null ? [] : [`<span class="tag">${escape(tag)}</span>`]));
  const options = Object.entries(column.options)
    .filter(([name]) => name !== 'format' && name !== 'timezone')
    .map(([name, value]) => escape(`${name} ${String(value)}`));
  const values =
    column.allowedValues === null
      ? []
      : [escape(`one of ${column.allowedValues.map(String).join(', ')}${column.enumOpen ? ', or new' : ''}`)];
  const links = column.relationships.flatMap(({ to }) => to.map((target) => `refers to ${link(target, pageOf)}`));
  const notes = [...options, ...values, ...links, ...(column.description === null ? [] : [escape(column.description)])];
  return [
    `<code>${escape(column.name)}</code>`,
    `<code>${escape(column.physicalType ?? column.logicalType ?? '')}</code>`,
    mapping === null ? 'not kept' : `<code>${escape(deltaTypeText(mapping.delta))}</code>`,
    column.required || column.keyPosition > 0 ? 'yes' : '',
    `${tags.join('')} ${notes.join('; ')}`.trim(),
  ];
}

function link(target: string, pageOf: (table: string) => string | null): string {
  const name = pageOf(target.split('.').slice(0, -1).join('.'));
  return name === null
    ? `<code>${escape(target)}</code>`
    : `<a href="${escape(encodeURIComponent(`${name}.html`))}"><code>${escape(target)}</code></a>`;
}

function ruleCells(rule: Rule): string[] {
  return [`<code>${escape(rule.id)}</code>`, escape(rule.column ?? 'table'), escape(rule.severity), ruleText(rule)];
}

function ruleText(rule: Rule): string {
  switch (rule.kind) {
    case 'library':
      return escape(`${rule.metric} ${rule.operator.name} ${rule.operator.text}${rule.unit === 'percent' ? '%' : ''}`);
    case 'sql':
      return `<code>${escape(rule.query)}</code> ${escape(`${rule.operator.name} ${rule.operator.text}`)}`;
    case 'custom':
      return `${escape(rule.engine)}: <code>${escape(rule.implementation)}</code>`;
    case 'text':
      return escape(rule.description ?? '');
  }
}

function versionHtml({ version, label, changes }: VersionEntry): string {
  const head = `<h3>${escape(version)}${label === null ? '' : ` <small>${escape(label)}</small>`}</h3>`;
  if (changes === null) return `${head}\n<p>first version</p>`;
  if (changes.length === 0) return `${head}\n<p>no change to the data</p>`;
  const items = changes.map(
    ({ code, subject, message }) => `<li><code>${code}</code> ${escape(subject)}: ${escape(message)}</li>`,
  );
  return `${head}\n<ul>${items.join('')}</ul>`;
}

function htmlTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, list: readonly string[]): string =>
    list.map((cell) => `<${tag}>${cell}</${tag}>`).join('');
  const body = rows.map((row) => `<tr>${cells('td', row)}</tr>`).join('\n');
  return `<table>\n<thead><tr>${cells('th', head)}</tr></thead>\n<tbody>\n${body}\n</tbody>\n</table>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
