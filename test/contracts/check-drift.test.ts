/** Drift, blast radius, report formats and settings of `contracts check`, with a database and a lake given as ports. */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Ports } from '../../contracts/cli/ports.ts';
import type { CatalogColumn, CatalogTable } from '../../contracts/engine/catalog.ts';
import type { GateRow } from '../../contracts/engine/gate.ts';
import type { DeltaFieldLike } from '../../contracts/engine/infer-delta.ts';
import { contracts } from './command-run.ts';
import type { CommandRun } from './command-run.ts';
import { ordersContract, version, WITHOUT_PAID_AT } from './shop-contract.ts';
import type { Edit } from './shop-contract.ts';

let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'contracts-drift-')));
  mkdirSync(join(folder, 'contracts'));
  mkdirSync(join(folder, 'base'));
  write();
  writeFileSync(join(folder, 'base/public.orders.odcs.yaml'), ordersContract());
});

function write(...edits: readonly Edit[]): void {
  writeFileSync(join(folder, 'contracts/public.orders.odcs.yaml'), ordersContract(...edits));
}

const column = (name: string, pgType: string, more: Partial<CatalogColumn> = {}): CatalogColumn => ({
  name,
  pgType,
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: false,
  keyPosition: 0,
  ...more,
});
const LIVE: readonly CatalogColumn[] = [
  column('order_id', 'bigint', { notNull: true, keyPosition: 1 }),
  column('status', 'order_status', { kind: 'enum', enumLabels: ['new', 'paid', 'shipped'], notNull: true }),
  column('total', 'numeric(12,2)', { notNull: true }),
  column('email', 'text'),
  column('paid_at', 'timestamp with time zone'),
];
const without = (...names: string[]): CatalogColumn[] => LIVE.filter(({ name }) => !names.includes(name));

const database = (columns: readonly CatalogColumn[], more: Partial<CatalogTable> = {}): Partial<Ports> => ({
  catalog: () =>
    Promise.resolve({
      tables: () => Promise.resolve([{ schema: 'public', table: 'orders', columns, ...more }]),
      probe: () => {
        throw new Error('check counts nothing at the source');
      },
      close: () => Promise.resolve(),
    }),
});

const field = (name: string, type: unknown): DeltaFieldLike => ({ name, type, nullable: true, metadata: {} });
const FIELDS = [
  field('order_id', 'long'),
  field('status', 'string'),
  field('total', 'decimal(12,2)'),
  field('email', 'string'),
  field('paid_at', 'timestamp'),
  field('_sluice_committed_at', 'timestamp'),
];

function lake(
  fields: readonly DeltaFieldLike[],
  rows: readonly GateRow[] = [],
  asked: (bigint | null)[] = [],
): Partial<Ports> {
  return {
    lake: () =>
      Promise.resolve({
        table: (schema, table) =>
          Promise.resolve(
            schema === 'public' && table === 'orders'
              ? {
                  place: 'memory',
                  version: 4n,
                  fields,
                  keys: () => Promise.resolve([]),
                  async *rows(columns, since) {
                    asked.push(since);
                    await Promise.resolve();
                    yield rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]])));
                  },
                  probe: () => {
                    throw new Error('check runs no rules');
                  },
                }
              : null,
          ),
      }),
  };
}

interface Shown {
  readonly exit: number;
  readonly schemaVersion: number;
  readonly problems: readonly { code: string }[];
  readonly contracts: readonly {
    findings: readonly { level: string; code: string; subject: string; message: string; line: number }[];
  }[];
}
async function check(
  args: readonly string[],
  ports: Partial<Ports> = {},
): Promise<Shown & { found: string[]; messages: string[] }> {
  const run = await contracts(folder, ['check', '--format', 'json', ...args], ports);
  const shown = JSON.parse(run.out) as Shown;
  expect(shown.exit).toBe(run.exit);
  const findings = shown.contracts.flatMap((item) => item.findings);
  return {
    ...shown,
    found: findings.map(({ level, code, subject }) => `${level} ${code} ${subject}`),
    messages: findings.map(({ message }) => message),
  };
}

describe('--source', () => {
  const URL = ['--source', 'postgres://db/shop'];

  it('finds nothing where contract and catalog agree, respelt types and domains included', async () => {
    expect(await check(URL, database(LIVE))).toMatchObject({ exit: 0, found: [] });
    const domain = column('email', 'public.mail', { kind: 'domain', baseType: 'text' });
    expect((await check(URL, database([...without('email'), domain]))).found).toEqual([]);
  });

  it.each([
    ['a column less', without('paid_at'), 'error COLUMN_MISSING orders.paid_at'],
    ['a column more (report 5)', [...LIVE, column('x', 'text')], 'warning COLUMN_EXTRA orders.x'],
    [
      'another type',
      [...without('total'), column('total', 'numeric(14,2)', { notNull: true })],
      'error TYPE_DRIFT orders.total',
    ],
    ['NULLs allowed', [...without('total'), column('total', 'numeric(12,2)')], 'error NULLABLE_DRIFT orders.total'],
    [
      'NULLs refused',
      [...without('email'), column('email', 'text', { notNull: true })],
      'info REQUIRED_DRIFT orders.email',
    ],
    [
      'another key',
      [...without('order_id'), column('order_id', 'bigint', { notNull: true })],
      'error KEY_DRIFT orders',
    ],
    [
      'a new label',
      [
        ...without('status'),
        column('status', 'order_status', {
          kind: 'enum',
          enumLabels: ['new', 'paid', 'shipped', 'lost'],
          notNull: true,
        }),
      ],
      'error ENUM_DRIFT orders.status',
    ],
    [
      'a label less',
      [
        ...without('status'),
        column('status', 'order_status', { kind: 'enum', enumLabels: ['new', 'paid'], notNull: true }),
      ],
      'warning ENUM_DRIFT orders.status',
    ],
  ])('%s', async (_what, columns, finding) => {
    expect((await check(URL, database(columns))).found).toEqual([finding]);
  });

  it('a column more is an error where unknown columns are refused', async () => {
    write([/unknownColumns, value: evolve/, 'unknownColumns, value: quarantine']);
    const { exit, found } = await check(URL, database([...LIVE, column('x', 'text')]));
    expect([exit, found]).toEqual([1, ['error COLUMN_EXTRA orders.x']]);
  });

  it('a replica identity that carries less than the contract counts on', async () => {
    write([
      /unknownColumns, value: evolve\}/,
      'unknownColumns, value: evolve}\n      - {property: replicaIdentity, value: full}',
    ]);
    expect((await check(URL, database(LIVE, { replicaIdentity: 'default' }))).found).toEqual([
      'error REPLICA_IDENTITY_DRIFT orders',
    ]);
  });

  it('a table that is gone', async () => {
    const run = await check(URL, database(LIVE, { table: 'other' }));
    expect(run.found).toEqual(['error TABLE_MISSING orders']);
  });

  it('a database that does not answer is one error with exit 3, whatever the number of contracts', async () => {
    for (const name of ['a', 'b'])
      writeFileSync(
        join(folder, `contracts/${name}.odcs.yaml`),
        ordersContract(
          [/shop.public.orders/, `shop.public.${name}`],
          [/physicalName: public.orders/, `physicalName: public.${name}`],
        ),
      );
    const { exit, problems, found } = await check(URL);
    expect(exit).toBe(3);
    expect(problems.map(({ code }) => code)).toEqual(['SOURCE_UNREADABLE']);
    expect(found).toEqual([]);
  });
});

describe('--lake', () => {
  it('finds nothing where contract and Delta table agree', async () => {
    expect(await check(['--lake', 'x'], lake(FIELDS))).toMatchObject({ exit: 0, found: [] });
  });

  it('types that differ are errors, columns that lack or are left over warnings', async () => {
    const fields = [
      ...FIELDS.filter(({ name }) => name !== 'total' && name !== 'paid_at'),
      field('total', 'string'),
      field('old', 'long'),
    ];
    expect((await check(['--lake', 'x'], lake(fields))).found.toSorted()).toEqual([
      'error LAKE_TYPE_DRIFT orders.total',
      'warning LAKE_COLUMN_EXTRA orders.old',
      'warning LAKE_COLUMN_MISSING orders.paid_at',
    ]);
  });

  it('an array of structs where the contract has text is a finding, not a crash', async () => {
    const struct = { type: 'struct', fields: [{ name: 'a', type: 'long', nullable: true, metadata: {} }] };
    const array = { type: 'array', elementType: struct, containsNull: true };
    const fields = FIELDS.map((field) => (field.name === 'email' ? { ...field, type: array } : field));
    const run = await check(['--lake', 'x'], lake(fields));
    expect(run).toMatchObject({ exit: 1, found: ['error LAKE_TYPE_DRIFT orders.email'] });
    expect(run.messages.join()).toContain('the Delta table has array<struct or map>');
  });

  it('a dropped private column that the lake still has is an error', async () => {
    write([/piiAction, value: hash/, 'piiAction, value: drop']);
    expect((await check(['--lake', 'x'], lake(FIELDS))).found).toEqual(['error PII_IN_LAKE orders.email']);
  });
});

describe('--data', () => {
  const ROWS: readonly GateRow[] = Array.from({ length: 2000 }, (_, index) => ({
    order_id: index,
    status: index < 31 ? 'shipped' : 'paid',
    total: index < 7 ? '5.00' : '50.00',
    // Hashed before the lake: no e-mail address any more, and no violation.
    email: 'a94f',
    paid_at: null,
  }));

  it('counts the rows that a tightened rule would quarantine, in the finding of the change', async () => {
    write([/new, paid, shipped/, 'new, paid'], [/minimum: 0/, 'minimum: 10'], version('1.1.0'));
    const asked: (bigint | null)[] = [];
    const run = await check(['--against', './base', '--lake', 'x', '--data', '7d'], lake(FIELDS, ROWS, asked));
    expect(run.found).toEqual(['warning ENUM_REMOVED orders.status', 'warning RULE_TIGHTENED orders.total']);
    expect(run.messages[0]).toContain('last 7 days: 31 of 2,000 rows (1.55%) would be quarantined');
    expect(run.messages[1]).toContain('last 7 days: 7 of 2,000 rows (0.35%) would be quarantined');
    expect(asked).toEqual([1_767_225_600_000_000n - 7n * 86_400_000_000n]);
    expect(run.exit).toBe(0);
    expect(
      (await check(['--against', './base', '--lake', 'x', '--data', '7d', '--fail-on', 'warning'], lake(FIELDS, ROWS)))
        .exit,
    ).toBe(1);
  });

  it('without a change, rows that break the contract are a finding of their own', async () => {
    const run = await check(['--lake', 'x', '--data', '1h'], lake(FIELDS, [...ROWS, { ...ROWS[0], status: 'lost' }]));
    expect(run.found).toEqual(['warning BLAST_RADIUS orders.status_ok']);
    expect(run.messages[0]).toBe('last 1 hour: 1 of 2,001 rows (0.05%) would be quarantined');
  });

  it('needs a lake and a span', async () => {
    expect((await contracts(folder, ['check', '--data', '7d'])).exit).toBe(2);
    expect((await contracts(folder, ['check', '--data', 'week', '--lake', 'x'], lake(FIELDS))).exit).toBe(2);
  });
});

describe('reports', () => {
  const broken = (format: string, ...args: string[]): Promise<CommandRun> =>
    contracts(folder, ['check', '--against', './base', '--format', format, ...args]);
  beforeEach(() => write(WITHOUT_PAID_AT, [/minimum: 0/, 'minimum: 10'], version('1.0.1')));

  it('text: a heading a contract, a line a finding, a summary', async () => {
    const { out, exit } = await broken('text');
    const lines = out.trimEnd().split('\n');
    expect(exit).toBe(1);
    expect(lines[0]).toBe('contracts/public.orders.odcs.yaml  1.0.0 -> 1.0.1  mode FORWARD_TRANSITIVE, base base');
    expect(lines.filter((line) => /^ {2}error .*COLUMN_REMOVED +orders\.paid_at/.test(line))).toHaveLength(1);
    expect(lines.at(-1)).toMatch(/^2 errors, 1 warning, 1 table checked in [\d.]+ s {3}exit 1$/);
  });

  it('json: schemaVersion 1, places', async () => {
    const { out } = await broken('json');
    const shown = JSON.parse(out) as Shown;
    expect(shown.schemaVersion).toBe(1);
    expect(shown.contracts[0]?.findings.find(({ code }) => code === 'RULE_TIGHTENED')?.line).toBe(20);
  });

  it('junit: errors are failures, warnings passed cases with their text, failures only when strict (report 4)', async () => {
    const { out } = await broken('junit');
    expect(out).toContain('<testsuite name="orders" tests="3" failures="2" errors="0" skipped="0" time=');
    expect(out).toMatch(/name="RULE_TIGHTENED orders.total"[^>]*>\n\s*<system-out>warning RULE_TIGHTENED: /);
    expect(out).toMatch(/<failure type="COLUMN_REMOVED"/);
    expect((await broken('junit', '--strict')).out).toContain('failures="3"');
  });

  it('sarif: rule, level, file, line', async () => {
    const { out } = await broken('sarif');
    const { runs } = JSON.parse(out) as {
      runs: { results: { ruleId: string; level: string; locations: unknown[] }[] }[];
    };
    expect(runs[0]?.results.find(({ ruleId }) => ruleId === 'RULE_TIGHTENED')).toMatchObject({
      level: 'warning',
      locations: [
        {
          physicalLocation: {
            artifactLocation: { uri: 'contracts/public.orders.odcs.yaml' },
            region: { startLine: 20 },
          },
        },
      ],
    });
  });

  it('github: an annotation a finding, its text escaped', async () => {
    const { out } = await broken('github');
    expect(out).toMatch(
      /^::warning file=contracts\/public\.orders\.odcs\.yaml,line=20,col=\d+,title=RULE_TIGHTENED orders\.total::minimum 0 -> 10/m,
    );
  });

  it('--output writes a file, --quiet leaves the summary out, --fail-on never ends with 0', async () => {
    expect(await broken('text', '--output', 'out/report.txt', '--fail-on', 'never')).toEqual({
      exit: 0,
      out: '',
      err: '',
    });
    expect(readFileSync(join(folder, 'out/report.txt'), 'utf8')).toContain('COLUMN_REMOVED');
    expect((await broken('text', '--quiet')).out).not.toContain('checked in');
  });
});

describe('usage', () => {
  it('a misspelt operator ends with 2, a place and the right word (report 1)', async () => {
    write([/mustBeGreaterThan/, 'mustBeGreaterThen']);
    const { exit, out } = await contracts(folder, ['check']);
    expect(exit).toBe(2);
    expect(out).toMatch(/error +16:\d+ .*did you mean 'mustBeGreaterThan'\?/);
  });

  it('two files for one table are an error with exit 2', async () => {
    writeFileSync(join(folder, 'contracts/again.odcs.yaml'), ordersContract());
    const { exit, found } = await check([]);
    expect(exit).toBe(2);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^error DUPLICATE_CONTRACT /);
  });

  it('a path or a table that is not there, an unknown mode or option ends with 2', async () => {
    for (const args of [['nowhere'], ['--table', 'nothing'], ['--mode', 'SIDEWAYS'], ['--what']])
      expect((await contracts(folder, ['check', ...args])).exit).toBe(2);
  });

  it('contracts.config.yaml gives defaults, modes by table, and variables; a wrong key is placed', async () => {
    write(WITHOUT_PAID_AT, version('1.1.0'));
    const config = join(folder, 'contracts/contracts.config.yaml');
    writeFileSync(config, 'defaults: {against: ./base, source: "${DATABASE}"}\nmodes: {"public.*": BACKWARD}\n');
    const asked: string[] = [];
    const ports: Partial<Ports> = {
      env: { DATABASE: 'postgres://here' },
      catalog: (url) => {
        asked.push(url);
        return database(without('paid_at')).catalog?.(url) ?? Promise.reject(new Error());
      },
    };
    expect(await check([], ports)).toMatchObject({ exit: 0, found: ['warning COLUMN_REMOVED orders.paid_at'] });
    expect(asked).toEqual(['postgres://here']);
    writeFileSync(config, 'defaults:\n  agianst: main\n');
    const wrong = await contracts(folder, ['check']);
    expect([wrong.exit, wrong.err]).toEqual([
      2,
      "contracts: contracts/contracts.config.yaml:2:3: unknown default 'agianst'\n  did you mean 'against'?\n",
    ]);
  });
});
