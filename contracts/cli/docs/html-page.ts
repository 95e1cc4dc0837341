/** A catalogue page of a table, and the list of all, as HTML. */
import type { Column, Rule } from '../../engine/model.ts';
import { isClassified } from '../../engine/model.ts';
import { lakeMapping } from '../../engine/privacy.ts';
import { placeOf } from '../../engine/rules/rule-meta.ts';
import type { RulePlace } from '../../engine/rules/rule-meta.ts';
import { deltaTypeText } from '../../engine/type-table.ts';
import type { CatalogueEntry, VersionEntry } from './catalogue.ts';
import { escapeHtml as escape, htmlPage, htmlTable } from './html-frame.ts';
import type { Row } from './html-frame.ts';

export type PageOf = (table: string) => string | null;

export function indexPage(entries: readonly CatalogueEntry[]): string {
  const rows = entries.map(({ contract, table, page, owner }): Row => {
    const about = table.description ?? contract.purpose ?? '';
    const columns = nested(table.columns).map(({ path }) => path);
    const personal = nested(table.columns).filter(({ column }) => isClassified(column)).length;
    return {
      find: [page, contract.id, owner, contract.domain, about, ...contract.tags, ...table.tags, ...columns].join(' '),
      cells: [
        `<a href="${href(page)}">${escape(page)}</a>`,
        escape(contract.version),
        escape(contract.status),
        escape(owner ?? ''),
        String(table.columns.length),
        table.rules.length === 0 ? '' : String(table.rules.length),
        personal === 0 ? '' : tag(String(personal), 'private'),
        escape(about),
      ],
    };
  });
  const head = ['Table', 'Version', 'Status', 'Owner', 'Columns', 'Rules', 'Private', 'What it is'];
  const box =
    '<input id="search" type="search" placeholder="Table, column, owner or word" aria-label="Search" hidden> <small id="count" role="status"></small>';
  const count = `${rows.length} table${rows.length === 1 ? '' : 's'}`;
  const body = `<h1>Data contracts</h1>\n<p class="dim">${count}</p>\n${box}\n${htmlTable(head, rows)}`;
  return htmlPage({ title: 'Data contracts', body, search: true });
}

/** `pageOf`: the page of another table by name, or null. */
export function tablePage(entry: CatalogueEntry, pageOf: PageOf): string {
  const { contract, table } = entry;
  const facts: readonly (readonly [string, string | null])[] = [
    ['Contract', `${contract.id} ${contract.version} (${contract.status})`],
    ['Owner', entry.owner],
    ['Domain', contract.domain],
    ['Tags', [...new Set([...contract.tags, ...table.tags])].join(', ') || null],
    ['Purpose', contract.purpose],
    ['Usage', contract.usage],
    ['Limitations', contract.limitations],
    ['Compatibility', table.compatibility ?? 'FORWARD_TRANSITIVE'],
    ['Unknown columns', table.unknownColumns ?? 'evolve'],
    ['On violation', table.onViolation],
    [
      'Quarantine stops at',
      table.maxQuarantineRatio === null ? null : `${table.maxQuarantineRatio * 100}% of the rows`,
    ],
    ['File', contract.source.file],
  ];
  const list = facts.flatMap(([name, value]) => (value === null ? [] : [`<dt>${name}</dt><dd>${escape(value)}</dd>`]));
  const steps = entry.lineage.map(
    ({ stage, name, detail }) =>
      `<li><small>${stage}</small><br><code>${escape(name)}</code>${detail === '' ? '' : `<br><small>${escape(detail)}</small>`}</li>`,
  );
  const columns = htmlTable(['Column', 'Type', 'Lake', 'Required', 'Notes'], columnRows(table.columns, pageOf));
  const promises = contract.sla.filter(
    ({ element }) =>
      element === null || !contract.tables.some(({ name }) => name !== table.name && element.startsWith(`${name}.`)),
  );
  const sections: readonly (readonly [string, string, string] | null)[] = [
    ['lineage', 'Lineage', `<ol class="lineage">${steps.join('')}</ol>`],
    ['columns', 'Columns', columns],
    table.rules.length === 0
      ? null
      : ['rules', 'Rules', htmlTable(['Rule', 'On', 'Where', 'Severity', 'What'], table.rules.map(ruleRow))],
    promises.length === 0
      ? null
      : [
          'promises',
          'Service levels',
          htmlTable(
            ['Promise', 'Value', 'On'],
            promises.map(({ property, value, unit, element }) => ({
              cells: [property, `${String(value)} ${unit ?? ''}`.trim(), element ?? ''].map(escape),
            })),
          ),
        ],
    ['versions', 'Change log', entry.versions.map((version) => versionHtml(version, entry)).join('\n')],
  ];
  const shown = sections.filter((section) => section !== null);
  const links = shown.map(([id, title]) => `<a href="#${id}">${title}</a>`).join('');
  const body = [
    `<nav><a href="index.html">All tables</a>${links}<a href="${escape(encodeURIComponent(`${entry.page}.md`))}">Markdown</a></nav>`,
    `<h1>${escape(entry.page)}</h1>`,
    table.description === null ? '' : `<p>${escape(table.description)}</p>`,
    `<dl>${list.join('')}</dl>`,
    ...shown.map(([id, title, inner]) => `<h2 id="${id}">${title}</h2>\n${inner}`),
  ];
  return htmlPage({ title: entry.page, body: body.filter((part) => part !== '').join('\n'), search: false });
}

interface Nested {
  readonly column: Column;
  /** `items[].qty` */
  readonly path: string;
  readonly depth: number;
}

/** Columns, each followed by what it holds. */
function nested(columns: readonly Column[], prefix = '', depth = 0): Nested[] {
  return columns.flatMap((column): Nested[] => {
    const path = `${prefix}${column.name}`;
    return [{ column, path, depth }, ...inside(column, path, depth + 1)];
  });
}

function inside(column: Column, path: string, depth: number): Nested[] {
  const fields = nested(column.properties, `${path}.`, depth);
  const entries = [
    [column.items, `${path}[]`],
    [column.mapKey, `${path}{key}`],
    [column.mapValue, `${path}{}`],
  ] as const;
  return [
    ...fields,
    ...entries.flatMap(([below, name]): Nested[] =>
      below === null ? [] : [{ column: below, path: name, depth }, ...inside(below, name, depth + 1)],
    ),
  ];
}

function columnRows(columns: readonly Column[], pageOf: PageOf): Row[] {
  return nested(columns).map(({ column, path, depth }): Row => {
    // What stands inside a column has no type of its own in the lake.
    const mapping = depth === 0 ? lakeMapping(column, null) : null;
    const lake =
      mapping === null ? (depth === 0 ? 'not kept' : '') : `<code>${escape(deltaTypeText(mapping.delta))}</code>`;
    const name = `<a href="#${anchor('column', path)}"><code>${escape(path)}</code></a>`;
    return {
      id: anchorId('column', path),
      depth,
      cells: [
        `${'&nbsp;'.repeat(depth * 3)}${name}`,
        `<code>${escape(column.physicalType ?? column.logicalType ?? '')}</code>`,
        lake,
        column.required || column.keyPosition > 0 ? 'yes' : '',
        columnNotes(column, pageOf),
      ],
    };
  });
}

function columnNotes(column: Column, pageOf: PageOf): string {
  const tags = [
    column.keyPosition > 0 ? tag(`key ${column.keyPosition}`, 'key') : '',
    column.partitionPosition > 0 ? tag(`partition ${column.partitionPosition}`) : '',
    column.unique ? tag('unique') : '',
    column.deprecated ? tag('deprecated', 'private') : '',
    isClassified(column) ? tag(privacyText(column), 'private') : '',
  ].join('');
  const { format, timezone, ...rest } = column.options;
  const options = [
    ...(format === undefined || column.logicalType !== 'string' ? [] : [`format ${format}`]),
    ...(timezone === true ? ['with time zone'] : []),
    ...Object.entries(rest).map(([name, value]) => `${name} ${String(value)}`),
    ...(column.allowedValues === null
      ? []
      : [`one of ${column.allowedValues.map(String).join(', ')}${column.enumOpen ? ', or new' : ''}`]),
    ...(column.default === undefined ? [] : [`older rows: ${String(column.default)}`]),
  ].map(escape);
  const links = column.relationships.flatMap(({ to }) => to.map((target) => `refers to ${link(target, pageOf)}`));
  const notes = [...options, ...links].join('; ');
  const about = column.description === null ? '' : `<span class="note">${escape(column.description)}</span>`;
  return `${tags}${notes === '' ? '' : `<span class="note">${notes}</span>`}${about}`;
}

function privacyText(column: Column): string {
  const what = column.pii ?? column.classification ?? 'personal';
  return column.piiAction === null ? what : `${what}: ${column.piiAction} ${column.piiStage}`;
}

function link(target: string, pageOf: PageOf): string {
  const name = pageOf(target.split('.').slice(0, -1).join('.'));
  const column = target.split('.').at(-1) ?? '';
  return name === null
    ? `<code>${escape(target)}</code>`
    : `<a href="${href(name)}#${anchor('column', column)}"><code>${escape(target)}</code></a>`;
}

const WHERE: Readonly<Record<RulePlace, string>> = {
  row: 'each event',
  table: 'the table',
  prose: '',
  'unknown-engine': 'not run',
};

function ruleRow(rule: Rule): Row {
  const on = rule.column === null ? 'table' : `<a href="#${anchor('column', rule.column)}">${escape(rule.column)}</a>`;
  return {
    id: anchorId('rule', rule.id),
    cells: [
      `<a href="#${anchor('rule', rule.id)}"><code>${escape(rule.id)}</code></a>`,
      on,
      WHERE[placeOf(rule)],
      escape([rule.severity, rule.onViolation].filter((part) => part !== null).join(', ')),
      `${ruleText(rule)}${rule.kind === 'text' || rule.description === null ? '' : `<span class="note">${escape(rule.description)}</span>`}`,
    ],
  };
}

function ruleText(rule: Rule): string {
  switch (rule.kind) {
    case 'library': {
      const { validValues, pattern, missingValues, properties } = rule;
      const lists = [validValues, missingValues, properties].flatMap((items) =>
        items === null ? [] : [`(${items.map(String).join(', ')})`],
      );
      const subject = [rule.metric, ...lists, ...(pattern === null ? [] : [`(${pattern})`])].join(' ');
      return escape(`${subject} ${rule.operator.name} ${rule.operator.text}${rule.unit === 'percent' ? '%' : ''}`);
    }
    case 'sql':
      return `<pre><code>${escape(rule.query.trim())}</code></pre>${escape(`${rule.operator.name} ${rule.operator.text}`)}`;
    case 'custom':
      return `${escape(rule.engine)}<pre><code>${escape(rule.implementation.trim())}</code></pre>`;
    case 'text':
      return escape(rule.description ?? '');
  }
}

function versionHtml({ version, label, changes }: VersionEntry, { contract, table }: CatalogueEntry): string {
  const head = `<h3 id="${escape(anchorId('version', version))}">${escape(version)}${label === null ? '' : ` <small>${escape(label)}</small>`}</h3>`;
  if (changes === null) return `${head}\n<p>first version</p>`;
  const others = contract.tables.filter(({ name }) => name !== table.name);
  const own = changes.filter(
    ({ subject }) => !others.some(({ name }) => subject === name || subject.startsWith(`${name}.`)),
  );
  if (own.length === 0) return `${head}\n<p>no change to the data</p>`;
  const items = own.map(
    ({ code, subject, message }) =>
      `<li><code>${code}</code> ${escape(subject === '' ? message : `${subject}: ${message}`)}</li>`,
  );
  return `${head}\n<ul>${items.join('')}</ul>`;
}

const tag = (text: string, kind = ''): string =>
  `<span class="tag${kind === '' ? '' : ` ${kind}`}">${escape(text)}</span>`;
const href = (page: string): string => escape(encodeURIComponent(`${page}.html`));

/** An id may hold anything but white space, and what `escape` takes out; a link to it is encoded. */
const anchorId = (kind: string, name: string): string =>
  `${kind}-${name.replaceAll(/[\s\u202a-\u202e\u2066-\u2069]/g, '_')}`;
const anchor = (kind: string, name: string): string => escape(encodeURIComponent(anchorId(kind, name)));
