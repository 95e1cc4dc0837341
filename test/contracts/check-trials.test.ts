/** What people do to contracts in a repository, and what `contracts check --against` must say of it: levels, codes and exit. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { contracts } from './command-run.ts';
import { createRepository } from './git-repository.ts';
import type { Repository } from './git-repository.ts';
import { ordersContract, version, WITHOUT_PAID_AT } from './shop-contract.ts';
import type { Edit } from './shop-contract.ts';

const FILE = 'contracts/public.orders.odcs.yaml';
let repository: Repository;
beforeEach(() => {
  repository = createRepository();
});
afterEach(() => repository.dispose());

async function check(...args: string[]): Promise<readonly [number, ...string[]]> {
  const paths = args[0]?.startsWith('--') === false ? [] : ['contracts'];
  const run = await contracts(repository.folder, ['check', ...paths, ...args, '--format', 'json']);
  const shown = JSON.parse(run.out) as {
    readonly problems: readonly { readonly code: string }[];
    readonly contracts: readonly { readonly findings: readonly { level: string; code: string; subject: string }[] }[];
  };
  const findings = shown.contracts.flatMap((each) => each.findings);
  return [
    run.exit,
    ...shown.problems.map(({ code }) => `problem ${code}`),
    ...findings
      .filter(({ level }) => level !== 'info')
      .map(({ level, code, subject }) => `${level} ${code} ${subject}`),
  ];
}

const put = (text: string, path = FILE): void => repository.write(path, text);
function release(tag: string, ...edits: readonly Edit[]): void {
  put(ordersContract(...edits));
  repository.commit(tag);
  repository.git('tag', '-a', tag, '-m', tag);
}

const mode = (word: string): Edit => [
  'value: evolve}',
  `value: evolve}\n      - {property: compatibility, value: ${word}}`,
];
const note = (code: string, more = ''): Edit => [
  'status: active',
  `status: active\ncustomProperties:\n  - property: breaking\n    value: [{code: ${code}, reason: agreed, approver: ana${more}}]`,
];
const PUBLIC_EMAIL: Edit = ['classification: restricted, tags: [pii]', 'classification: internal, tags: [pii]'];
const NO_ACTION: Edit = [', {property: piiAction, value: hash}', ''];
const labels = (list: string): Edit => ['[new, paid, shipped]', `[${list}]`];
const NEW_ID: Edit = ['id: shop.public.orders', 'id: shop.public.sales'];

const SECOND = `  - id: lines
    name: lines
    physicalName: public.lines
    logicalType: object
    properties:
      - {id: l1, name: line_id, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {id: l2, name: note, logicalType: string, physicalType: text}
`;
const withLines = (text: string, lines = SECOND): string => text + lines;

describe('the version', () => {
  beforeEach(() => release('v1', version('1.2.0')));

  it.each<readonly [string, readonly Edit[], readonly [number, ...string[]]]>([
    ['the same text', [version('1.2.0')], [0]],
    ['goes back without a change', [version('1.1.9')], [1, 'error VERSION_TOO_SMALL 1.1.9']],
    ['goes back a major', [version('0.9.0')], [1, 'error VERSION_TOO_SMALL 0.9.0']],
    [
      'stays the same with an added column',
      [version('1.2.0'), [/$/, '      - {id: c6, name: extra, logicalType: string, physicalType: text}\n']],
      [1, 'error VERSION_TOO_SMALL 1.2.0'],
    ],
    [
      'a minor one for an added column',
      [version('1.3.0'), [/$/, '      - {id: c6, name: extra, logicalType: string, physicalType: text}\n']],
      [0],
    ],
    ['rises for nothing', [version('1.2.1')], [0]],
    ['is no version any more', [version("'next'")], [2, 'error VERSION_FORMAT version']],
    [
      'a patch for a removed column',
      [version('1.2.1'), WITHOUT_PAID_AT],
      [1, 'error VERSION_TOO_SMALL 1.2.1', 'error COLUMN_REMOVED orders.paid_at'],
    ],
    [
      'a major one for it, without a note',
      [version('2.0.0'), WITHOUT_PAID_AT],
      [1, 'error COLUMN_REMOVED orders.paid_at'],
    ],
    [
      'a major one for it, with a note',
      [version('2.0.0'), WITHOUT_PAID_AT, note('COLUMN_REMOVED')],
      [0, 'warning COLUMN_REMOVED orders.paid_at'],
    ],
    [
      'with a note for another column',
      [version('2.0.0'), WITHOUT_PAID_AT, note('COLUMN_REMOVED', ', subject: orders.email')],
      [1, 'error COLUMN_REMOVED orders.paid_at'],
    ],
    [
      'with a note that has ended',
      [version('2.0.0'), WITHOUT_PAID_AT, note('COLUMN_REMOVED', ", until: '2020-01-01'")],
      [1, 'error COLUMN_REMOVED orders.paid_at'],
    ],
    [
      'with a note and a minor version only',
      [version('1.3.0'), WITHOUT_PAID_AT, note('COLUMN_REMOVED')],
      [1, 'error VERSION_TOO_SMALL 1.3.0', 'error COLUMN_REMOVED orders.paid_at'],
    ],
  ])('%s', async (_name, edits, wanted) => {
    put(ordersContract(...edits));
    expect(await check('--against', 'v1')).toEqual(wanted);
  });
});

describe('privacy', () => {
  it.each<readonly [string, readonly Edit[], readonly [number, ...string[]]]>([
    ['a lower class', [PUBLIC_EMAIL], [1, 'error PII_DOWNGRADE orders.email']],
    ['a lower class with a note', [PUBLIC_EMAIL, note('PII_DOWNGRADE')], [0, 'warning PII_DOWNGRADE orders.email']],
    ['no action any more', [NO_ACTION], [1, 'error PII_DOWNGRADE orders.email']],
    ['no action, in mode NONE', [NO_ACTION, mode('NONE')], [1, 'error PII_DOWNGRADE orders.email']],
    ['no tag', [['tags: [pii], ', '']], [1, 'error PII_DOWNGRADE orders.email']],
    [
      'before the lake to before the log is no loss',
      [['value: hash}', 'value: hash}, {property: piiStage, value: before-log}']],
      [0],
    ],
  ])('%s', async (_name, edits, wanted) => {
    release('v1');
    put(ordersContract(version('2.0.0'), ...edits));
    const [exit, ...found] = await check('--against', 'v1');
    expect([exit, ...found.filter((each) => each.includes('PII_DOWNGRADE'))]).toEqual(wanted);
  });
});

describe('lists of values', () => {
  it('the list of 3.2 says what invalidValues said', async () => {
    release('v1');
    put(
      ordersContract(
        ['v3.1.0', 'v3.2.0'],
        [/quality: \[\{id: status_ok[^\n]*/, 'enum: [{value: new}, {value: paid}, {value: shipped}]}'],
        version('1.0.1'),
      ),
    );
    const [exit, ...found] = await check('--against', 'v1');
    expect([exit, found.filter((each) => each.includes('ENUM'))]).toEqual([0, []]);
  });

  it('a label less breaks old rows only, a label more breaks readers', async () => {
    release('v1');
    put(ordersContract(version('1.1.0'), labels('new, paid')));
    expect(await check('--against', 'v1')).toEqual([0, 'warning ENUM_REMOVED orders.status']);
    put(ordersContract(version('1.1.0'), labels('new, paid, shipped, lost')));
    expect(await check('--against', 'v1')).toEqual([
      1,
      'error VERSION_TOO_SMALL 1.1.0',
      'error ENUM_ADDED orders.status',
    ]);
    expect(await check('--against', 'v1', '--mode', 'BACKWARD')).toEqual([0, 'warning ENUM_ADDED orders.status']);
  });
});

describe('released versions', () => {
  it('TRANSITIVE finds what only the oldest of three conflicts with', async () => {
    release('v1.0.0', ['minimum: 0', 'minimum: 5'], mode('FORWARD_TRANSITIVE'));
    // A looser bound slipped through, and was released twice; HEAD does not touch it.
    release('v1.1.0', version('1.1.0'), mode('FORWARD_TRANSITIVE'));
    release('v1.2.0', version('1.2.0'), mode('FORWARD_TRANSITIVE'));
    put(
      ordersContract(version('1.2.1'), mode('FORWARD_TRANSITIVE'), [
        'name: orders\nschema',
        'name: our orders\nschema',
      ]),
    );
    const [exit, ...found] = await check('--against', 'v1.2.0');
    expect([exit, ...found.filter((each) => !each.includes('VERSION'))]).toEqual([
      1,
      'error RULE_LOOSENED orders.total',
    ]);
    expect((await check('--against', 'v1.2.0', '--mode', 'FORWARD'))[0]).toBe(0);
    expect((await check('--against', 'v1.2.0', '--mode', 'BACKWARD_TRANSITIVE'))[0]).toBe(0);
  });

  it('also where the folder was another when they were released', async () => {
    put(ordersContract(['minimum: 0', 'minimum: 5']), 'old/a.odcs.yaml');
    repository.commit('v1');
    repository.git('tag', 'v1.0.0');
    repository.git('mv', 'old', 'contracts');
    put(ordersContract(version('1.1.0')), 'contracts/a.odcs.yaml');
    repository.commit('moved, looser');
    put(ordersContract(version('1.1.1'), ['name: orders\nschema', 'name: ours\nschema']), 'contracts/a.odcs.yaml');
    const [exit, ...found] = await check('--against', 'HEAD');
    expect([exit, ...found]).toContain('error RULE_LOOSENED orders.total');
  });
});

describe('files that move', () => {
  beforeEach(() => release('v1'));
  const BROKEN = [1, 'error VERSION_TOO_SMALL 1.0.1', 'error COLUMN_REMOVED orders.paid_at'];

  it('a renamed file is the same contract', async () => {
    repository.git('mv', FILE, 'contracts/sales.odcs.yaml');
    expect(await check('--against', 'v1')).toEqual([0]);
    put(ordersContract(version('1.0.1'), WITHOUT_PAID_AT), 'contracts/sales.odcs.yaml');
    expect(await check('--against', 'v1')).toEqual(BROKEN);
    expect(await check('contracts/sales.odcs.yaml', '--against', 'v1')).toEqual(BROKEN);
  });

  it('a moved folder takes its contracts along, and what is lost on the way is removed', async () => {
    put(withLines(ordersContract(NEW_ID)).replaceAll('orders', 'sales'), 'contracts/public.sales.odcs.yaml');
    repository.commit('two');
    repository.git('mv', 'contracts', 'data');
    expect(await check('data', '--against', 'HEAD')).toEqual([0]);
    repository.remove('data/public.sales.odcs.yaml');
    put(ordersContract(version('1.0.1'), WITHOUT_PAID_AT), 'data/public.orders.odcs.yaml');
    expect(await check('data', '--against', 'HEAD')).toEqual([...BROKEN, 'error TABLE_REMOVED sales']);
  });

  it('another id in the same file is compared; id and file both new are one removed and one new', async () => {
    put(ordersContract(NEW_ID, WITHOUT_PAID_AT, version('1.0.1')));
    expect((await check('--against', 'v1')).slice(1)).toContain('error COLUMN_REMOVED orders.paid_at');
    repository.remove(FILE);
    put(ordersContract(NEW_ID), 'contracts/public.sales.odcs.yaml');
    expect(await check('--against', 'v1')).toEqual([1, 'error TABLE_REMOVED orders']);
    put('aliases: {shop.public.orders: shop.public.sales}\n', 'contracts/contracts.config.yaml');
    expect((await check('--against', 'v1'))[0]).toBe(0);
  });

  it('a contract that is split names the table that it lost', async () => {
    put(withLines(ordersContract()));
    repository.commit('two tables');
    put(ordersContract(version('1.1.0')));
    put(
      ordersContract(['id: shop.public.orders', 'id: shop.public.lines']).replace(
        /schema:\n[\s\S]*$/,
        `schema:\n${SECOND}`,
      ),
      'contracts/public.lines.odcs.yaml',
    );
    expect((await check('--against', 'HEAD')).slice(1)).toContain('error TABLE_REMOVED lines');
  });

  it('what a table promised goes along into its new contract, privacy first', async () => {
    put(ordersContract(NEW_ID, PUBLIC_EMAIL, WITHOUT_PAID_AT), 'contracts/public.sales.odcs.yaml');
    repository.remove(FILE);
    const lost = [
      'error COLUMN_REMOVED orders.paid_at',
      'error PII_DOWNGRADE orders.email',
      'error TABLE_REMOVED orders',
    ];
    expect(await check('--against', 'HEAD')).toEqual([1, ...lost]);
    put(ordersContract(NEW_ID, PUBLIC_EMAIL, note('PII_DOWNGRADE')), 'contracts/public.sales.odcs.yaml');
    expect(await check('--against', 'HEAD')).toEqual([1, 'warning PII_DOWNGRADE orders.email', lost[2]]);
  });

  it('a deleted one is removed, also when main has changed it since', async () => {
    repository.git('checkout', '-q', '-b', 'work');
    repository.remove(FILE);
    put(ordersContract(NEW_ID), 'contracts/other.odcs.yaml');
    repository.commit('gone');
    repository.git('checkout', '-q', 'main');
    put(ordersContract(version('1.1.0'), labels('new')));
    repository.commit('main moves');
    repository.git('checkout', '-q', 'work');
    expect((await check('--against', 'main')).slice(1)).toContain('error TABLE_REMOVED orders');
  });
});

describe('modes a table', () => {
  const lines = (word: string): string =>
    SECOND.replace(
      '    properties:',
      `    customProperties: [{property: compatibility, value: ${word}}]\n    properties:`,
    );
  const without = (text: string): string => text.replace(/^ {6}- \{id: l2.*\n/m, '');

  it('each table of a contract is judged by its own', async () => {
    put(withLines(ordersContract(mode('NONE')), lines('FORWARD')));
    repository.commit('two');
    put(withLines(ordersContract(mode('NONE'), WITHOUT_PAID_AT, version('1.1.0')), lines('FORWARD')));
    const [exit, ...found] = await check('--against', 'HEAD');
    expect([exit, found.filter((each) => each.startsWith('error'))]).toEqual([0, []]);
    put(withLines(ordersContract(mode('NONE'), version('1.1.0')), without(lines('FORWARD'))));
    expect((await check('--against', 'HEAD')).slice(1)).toContain('error COLUMN_REMOVED lines.note');
  });

  it("a table that says nothing has the default, not its neighbour's", async () => {
    put(withLines(ordersContract(mode('NONE'))));
    repository.commit('two');
    put(withLines(ordersContract(mode('NONE'), version('1.1.0')), without(SECOND)));
    expect((await check('--against', 'HEAD')).slice(1)).toContain('error COLUMN_REMOVED lines.note');
    expect(
      (await check('--against', 'HEAD', '--mode', 'NONE')).filter((each) => String(each).startsWith('error')),
    ).toEqual([]);
  });
});
