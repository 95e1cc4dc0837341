/** `contracts diff`, `infer`, `test`, `export` and `docs`, on files in a temporary folder. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Ports } from '../../contracts/cli/ports.ts';
import type { GateRow } from '../../contracts/engine/gate.ts';
import { contracts } from './command-run.ts';
import { createRepository } from './git-repository.ts';
import { ordersContract, version, WITHOUT_PAID_AT } from './shop-contract.ts';

const FILE = 'contracts/public.orders.odcs.yaml';
let folder: string;
const write = (path: string, text: string): void => {
  mkdirSync(join(folder, path, '..'), { recursive: true });
  writeFileSync(join(folder, path), text);
};
const read = (path: string): string => readFileSync(join(folder, path), 'utf8');
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'contracts-commands-')));
  write(FILE, ordersContract());
});

describe('contracts diff', () => {
  it('lists every change with what it breaks, and passes no verdict', async () => {
    write('old/public.orders.odcs.yaml', ordersContract());
    write(FILE, ordersContract(WITHOUT_PAID_AT, [/minimum: 0/, 'minimum: 1']));
    const run = await contracts(folder, ['diff', './old']);
    expect(run.exit).toBe(0);
    expect(run.out).toContain('COLUMN_REMOVED  orders.paid_at');
    expect(run.out).toMatch(/RULE_TIGHTENED +orders\.total +minimum 0 -> 1 +\[backward breaks, forward ok\]/);
    const json = await contracts(folder, ['diff', './old', FILE, '--format', 'json']);
    const shown = JSON.parse(json.out) as { schemaVersion: number; contracts: { changes: { code: string }[] }[] };
    expect(shown.schemaVersion).toBe(1);
    expect(shown.contracts[0]?.changes.map(({ code }) => code).toSorted()).toEqual([
      'COLUMN_REMOVED',
      'RULE_TIGHTENED',
    ]);
    expect((await contracts(folder, ['diff', './contracts'])).out).toBe('no changes\n');
  });

  it('compares two folders, and a file with a folder, where no contracts stand in their usual place', async () => {
    write('else/a/x.odcs.yaml', ordersContract());
    write('else/b/y.odcs.yaml', ordersContract(WITHOUT_PAID_AT));
    mkdirSync(join(folder, 'else/empty'));
    for (const from of ['./a', './a/x.odcs.yaml'])
      expect((await contracts(join(folder, 'else'), ['diff', from, './b'])).out).toContain(
        'COLUMN_REMOVED  orders.paid_at',
      );
    const empty = await contracts(join(folder, 'else'), ['diff', './empty', './b']);
    expect([empty.exit, empty.err]).toEqual([2, expect.stringContaining('no contract in empty')]);
    expect((await contracts(join(folder, 'else'), ['check', 'b', '--against', './empty'])).exit).toBe(2);
  });

  it('what cannot be read ends with 2, what is not there with 3', async () => {
    write('old/public.orders.odcs.yaml', 'kind: DataContract\n');
    expect((await contracts(folder, ['diff', './old'])).exit).toBe(2);
    expect((await contracts(folder, ['diff', 'nowhere'])).exit).toBe(3);
  });
});

describe('contracts infer', () => {
  it('--update brings every table of a contract up to date, each in its own list', async () => {
    write(
      'two.sql',
      'create table a (id int primary key, x int); create table b (id int primary key, y bigint); create table none ();',
    );
    const column = (id: string, name: string): string =>
      `      - {id: ${id}, name: ${name}, logicalType: integer, physicalType: integer}${name === 'id' ? '' : ' # mine'}\n`;
    const table = (name: string, columns: string): string =>
      `  - name: ${name}\n    physicalName: public.${name}\n    properties:\n${columns}`;
    write(
      'two.odcs.yaml',
      `apiVersion: v3.1.0\nkind: DataContract\nid: shop.two\nversion: 1.0.0\nstatus: active\nschema:\n${table('a', column('a1', 'id'))}${table('b', column('b1', 'id') + column('b2', 'y'))}`,
    );
    const run = await contracts(folder, ['infer', '--from', 'ddl', 'two.sql', '--update', 'two.odcs.yaml']);
    expect(run.exit, run.err).toBe(0);
    const [first = '', second = ''] = read('two.odcs.yaml').split('- name: b\n');
    expect(first).toMatch(/name: x\n/);
    expect(first).not.toContain('bigint');
    expect(second).toContain('physicalType: bigint} # mine');
    const all = await contracts(folder, ['infer', '--from', 'ddl', 'two.sql', '--out', 'made', '--strict']);
    expect([all.exit, all.err]).toEqual([1, expect.stringContaining('public.none: it has no columns')]);
  });

  const DDL = `create type order_status as enum ('new', 'paid', 'shipped', 'lost');
create table orders (
  order_id bigint primary key,
  status order_status not null,
  total numeric(14,2) not null check (total >= 0),
  email text,
  paid_at timestamptz,
  note text not null
);
`;

  it('from DDL: a valid contract on stdout, or a file a table', async () => {
    write('schema.sql', DDL);
    const run = await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--name', 'shop']);
    expect(run.exit).toBe(0);
    write('one.odcs.yaml', run.out);
    expect((await contracts(folder, ['check', 'one.odcs.yaml'])).exit).toBe(0);
    expect(run.out).toContain('id: shop.public.orders');
    expect((await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--out', 'made'])).exit).toBe(0);
    expect(readdirSync(join(folder, 'made'))).toEqual(['public.orders.odcs.yaml']);
    // A file that stands there is a person's.
    expect((await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--out', 'made'])).exit).toBe(2);
  });

  it('--strict fails on what needs a choice, and on statements that were passed over', async () => {
    write('schema.sql', 'create table t (id bigint primary key, amount numeric, place strange_type);\nselect 1;\n');
    const args = ['infer', '--from', 'ddl', 'schema.sql'];
    const loose = await contracts(folder, args);
    expect(loose.exit).toBe(0);
    expect(loose.err).toMatch(/look at public\.t\.amount: numeric has no precision/);
    expect((await contracts(folder, [...args, '--strict'])).exit).toBe(1);
  });

  it('--update keeps comments and edits to the byte, and says what it did and what it left', async () => {
    write('schema.sql', DDL);
    const mine = ordersContract(
      [/^name: orders$/m, 'name: orders      # the shop’s heart'],
      [/ {6}- \{id: c5/, '      # when the money came\n      - {id: c5'],
      [/minimum: 0/, 'minimum: 0.10'],
    );
    write(FILE, mine);
    const run = await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--update', FILE]);
    expect(run.exit).toBe(0);
    const after = read(FILE).split('\n');
    const before = mine.split('\n');
    const changed = before.filter((line) => !after.includes(line));
    expect(changed.map((line) => /name: (\w+)/.exec(line)?.[1])).toEqual(['status', 'total']);
    expect(read(FILE)).toContain("physicalType: 'numeric(14,2)'");
    expect(read(FILE)).toContain('minimum: 0.10');
    expect(read(FILE)).toContain('validValues: [new, paid, shipped, lost]');
    expect(read(FILE)).toMatch(/ {6}- id: note\n {8}name: note\n/);
    expect(run.err).toContain('status: +lost');
    expect(run.err).toContain('total: numeric(12,2) -> numeric(14,2)');
    expect((await contracts(folder, ['check', FILE])).exit).toBe(0);
    const again = await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--update', FILE]);
    expect(again.err).toContain('is up to date');
  });

  it('--update leaves to a person what is gone', async () => {
    write('schema.sql', 'create table orders (order_id bigint primary key);');
    const run = await contracts(folder, ['infer', '--from', 'ddl', 'schema.sql', '--update', FILE]);
    expect(read(FILE)).toBe(ordersContract());
    expect(run.err).toContain('paid_at is no longer there');
  });

  it('from JSON Schema', async () => {
    write(
      'row.json',
      JSON.stringify({
        type: 'object',
        required: ['id', 'kind'],
        properties: {
          id: { type: 'integer' },
          kind: { type: 'string', enum: ['a', 'b'] },
          ref: { type: ['string', 'null'], format: 'uuid' },
          tags: { type: 'array', items: { type: 'string' } },
          more: { type: 'object', allOf: [] },
        },
      }),
    );
    const args = ['infer', '--from', 'jsonschema', 'row.json', '--table', 'public.rows', '--key', 'id'];
    const run = await contracts(folder, args);
    write('rows.odcs.yaml', run.out);
    expect((await contracts(folder, ['check', 'rows.odcs.yaml'])).out).toContain('0 errors');
    expect(run.out).toMatch(/name: tags\n +logicalType: array\n +physicalType: text\[\]/);
    expect(run.out).toContain('validValues: [a, b]');
    expect((await contracts(folder, [...args, '--strict'])).exit).toBe(1);
  });

  it('from a topic: types by sample, and rules proposed as comments only', async () => {
    const rows: GateRow[] = Array.from({ length: 40 }, (_, index) => ({
      id: index,
      kind: index % 2 ? 'a' : 'b',
      note: null,
    }));
    const run = await contracts(folder, ['infer', '--from', 'topic', '--table', 'public.rows'], stream(rows));
    expect(run.out).toMatch(/name: kind\n +logicalType: string/);
    expect(run.out).toContain('# kind: 40 rows, 0% null, 2 distinct values; a rule? {metric: invalidValues');
    expect(run.out).toContain('# note: 40 rows, 100% null');
    write('rows.odcs.yaml', run.out);
    expect((await contracts(folder, ['check', 'rows.odcs.yaml'])).exit).toBe(0);
  });
});

const stream = (rows: readonly GateRow[]): Partial<Ports> => ({
  stream: () =>
    Promise.resolve({
      sample: (schema, table) => Promise.resolve({ topic: `shop.${schema}.${table}`, keys: ['order_id'], rows }),
      close: () => Promise.resolve(),
    }),
});

describe('contracts test', () => {
  const GOOD: GateRow = { order_id: 1, status: 'new', total: '1.00', email: null, paid_at: null };
  const test = async (rows: readonly GateRow[], ...args: string[]) =>
    contracts(folder, ['test', '--stage', 'stream', ...args], stream(rows));

  it('passes, and fails with the count', async () => {
    const good = await test([GOOD]);
    expect(good.exit).toBe(0);
    expect(good.out).toMatch(
      /^orders {2}1\.0\.0 {2}1 events of shop\.public\.orders\n {2}ok +orders_rows +rowCount 1 > 0/,
    );
    const bad = await test([GOOD, { ...GOOD, order_id: 2, status: 'lost' }]);
    expect(bad.exit).toBe(1);
    expect(bad.out).toMatch(/FAIL +status_ok +invalidValues 1 /);
    expect((await test([GOOD, { ...GOOD, status: 'lost' }], '--rule', 'orders_rows')).exit).toBe(0);
    expect((await test([GOOD], '--rule', 'nothing')).exit).toBe(2);
  });

  it('a violated rule of severity warning is shown, and ends with 0; JUnit does not fail on it (report 4)', async () => {
    write(FILE, ordersContract([/mustBeGreaterThan: 0, severity: error/, 'mustBeGreaterThan: 5, severity: warning']));
    const run = await test([GOOD]);
    expect(run.exit).toBe(0);
    expect(run.out).toMatch(/warning +orders_rows/);
    expect((await test([GOOD], '--fail-on', 'warning')).exit).toBe(1);
    const { out } = await test([GOOD], '--format', 'junit');
    expect(out).toContain('failures="0"');
    expect(out).toMatch(/<system-out>warning RULE_FAILED: rowCount 1 /);
  });

  it('an engine that we do not have ends as NOT RUN with exit 1, and the others run (report 2)', async () => {
    const legacy = '      - {id: dq_legacy, type: custom, engine: greatExpectations, implementation: anything}\n';
    write(FILE, ordersContract([/( {6}- \{id: orders_rows.*\n)/, `$1${legacy}`]));
    const run = await test([GOOD]);
    expect(run.exit).toBe(1);
    expect(run.out).toMatch(/NOT RUN +dq_legacy +engine greatExpectations is not built in/);
    expect(run.out).toMatch(/ok +orders_rows/);
    expect((await test([GOOD], '--format', 'junit')).out).toContain('<error type="NOT_RUN"');
    const json = JSON.parse((await test([GOOD], '--format', 'json')).out) as {
      summary: { notRun: number; passed: number };
    };
    expect(json.summary).toMatchObject({ notRun: 1, passed: 2 });
  });

  it('SQL does not run on a stream, and says so', async () => {
    write(
      FILE,
      ordersContract([
        /( {6}- \{id: orders_rows.*\n)/,
        "$1      - {id: s, type: sql, query: 'SELECT count(*) FROM {object}', mustBe: 1}\n",
      ]),
    );
    const run = await test([GOOD]);
    expect([run.exit, /NOT RUN +s /.test(run.out)]).toEqual([1, true]);
  });

  it('latency in minutes, by the newest event (report 16)', async () => {
    const sla = 'slaProperties:\n  - {id: lat, property: latency, value: 5, unit: minutes, element: orders.paid_at}\n';
    write(FILE, `${ordersContract()}${sla}`);
    // The clock of these tests stands at 2026-01-01T00:00:00Z.
    const fresh = await test([{ ...GOOD, paid_at: '2025-12-31T23:56:00Z' }]);
    expect([fresh.exit, /ok +lat +latency 00:04:00 <= 5 minutes/.test(fresh.out)]).toEqual([0, true]);
    expect((await test([{ ...GOOD, paid_at: '2025-12-31T23:54:00Z' }])).exit).toBe(1);
  });

  it('a stage that does not answer is one error with exit 3', async () => {
    for (const name of ['a', 'b'])
      write(
        `contracts/${name}.odcs.yaml`,
        ordersContract([/shop.public.orders/, name], [/physicalName: public.orders/, `physicalName: public.${name}`]),
      );
    const run = await contracts(folder, ['test', '--stage', 'lake', '--lake', 's3://gone/x']);
    expect(run.exit).toBe(3);
    expect(run.out.match(/LAKE_UNREADABLE/g)).toHaveLength(1);
    expect((await contracts(folder, ['test', '--stage', 'source'])).exit).toBe(2);
    expect((await contracts(folder, ['test', '--since', '1h', '--stage', 'source', '--source', 'x'])).exit).toBe(2);
  });
});

describe('contracts export', () => {
  it('writes each target, lists what it cannot say, and fails on that when strict', async () => {
    for (const target of [
      'jsonschema',
      'ajv',
      'delta-ddl',
      'delta-constraints',
      'postgres-ddl',
      'avro',
      'odcs',
      'markdown',
    ]) {
      const run = await contracts(folder, ['export', '--to', target]);
      expect([target, run.exit, run.out.length > 50]).toEqual([target, 0, true]);
    }
    const strict = await contracts(folder, ['export', '--to', 'avro', '--strict']);
    expect([strict.exit, strict.err.startsWith('lossy ')]).toEqual([1, true]);
    expect((await contracts(folder, ['export', '--to', 'sql'])).exit).toBe(2);
  });

  it('the ajv module validates a row', async () => {
    expect((await contracts(folder, ['export', '--to', 'ajv', '--out', 'made'])).exit).toBe(0);
    write('made/check.cjs', read('made/public.orders.validate.cjs'));
    // The module needs ajv of the place it is used in.
    const require = createRequire(import.meta.url);
    const module = { exports: null as unknown };
    // oxlint-disable-next-line typescript/no-implied-eval -- the exported text is what is tested
    new Function('module', 'require', read('made/check.cjs'))(module, require);
    const validate = module.exports as (row: unknown) => boolean;
    const row = { order_id: 1, status: 'new', total: '1.00', email: null, paid_at: null };
    expect([validate(row), validate({ ...row, status: 'lost' })]).toEqual([true, false]);
  });
});

describe('contracts docs', () => {
  it('columns, rules, lineage, and what each tagged version changed', async () => {
    const repository = createRepository();
    try {
      repository.write(FILE, ordersContract(WITHOUT_PAID_AT));
      repository.commit('first');
      repository.git('tag', 'v1.0.0');
      repository.write(
        FILE,
        ordersContract(
          [/^name: orders$/m, 'name: orders\ndescription: {purpose: "<b>All</b> orders"}'],
          version('1.1.0'),
        ),
      );
      const run = await contracts(repository.folder, ['docs', '--out', 'site']);
      expect([run.exit, run.out]).toEqual([0, 'wrote 1 table to site\n']);
      const page = readFileSync(join(repository.folder, 'site/public.orders.html'), 'utf8');
      expect(page).toContain('&lt;b&gt;All&lt;/b&gt; orders');
      expect(page).toMatch(
        /source<\/small><br><code>public\.orders<.*topic<\/small><br><code>shop\.public\.orders<.*<code>public\/orders</,
      );
      expect(page).toMatch(/<h3 id="version-1.1.0">1\.1\.0<\/h3>\n<ul><li><code>COLUMN_ADDED<\/code> orders\.paid_at/);
      expect(page).toMatch(/<h3 id="version-1.0.0">1\.0\.0 <small>v1\.0\.0<\/small><\/h3>\n<p>first version<\/p>/);
      expect(page).not.toMatch(/<script|https?:\/\//);
      const markdown = readFileSync(join(repository.folder, 'site/public.orders.md'), 'utf8');
      expect(markdown).toContain('- `COLUMN_ADDED` orders.paid_at');
      expect(readFileSync(join(repository.folder, 'site/index.html'), 'utf8')).toContain('href="public.orders.html"');
    } finally {
      repository.dispose();
    }
  });
});
