/** The base of `contracts check`: merge-base, tags, folders, files, what is missing, against real git repositories. */
import { mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { contracts } from './command-run.ts';
import { createRepository, openRepository } from './git-repository.ts';
import type { Repository } from './git-repository.ts';
import { ordersContract, version, WITHOUT_PAID_AT } from './shop-contract.ts';

const FILE = 'contracts/public.orders.odcs.yaml';
let repository: Repository;
beforeEach(() => {
  repository = createRepository();
  repository.write(FILE, ordersContract());
  repository.commit('first');
});
afterEach(() => repository.dispose());

interface Shown {
  readonly exit: number;
  readonly problems: readonly { code: string; remedy: string }[];
  readonly contracts: readonly {
    file: string;
    base: string;
    versionBefore: string | null;
    findings: readonly { level: string; code: string; subject: string; message: string; line: number }[];
  }[];
}
async function check(...args: string[]): Promise<Shown & { codes: string[] }> {
  const run = await contracts(repository.folder, ['check', 'contracts', '--format', 'json', ...args]);
  const shown = JSON.parse(run.out) as Shown;
  expect(shown.exit).toBe(run.exit);
  return {
    ...shown,
    codes: shown.contracts.flatMap(({ findings }) => findings.map(({ code, level }) => `${level} ${code}`)),
  };
}

describe('contracts check --against', () => {
  it('compares with the merge-base, not with the tip of the other branch', async () => {
    const fork = repository.git('rev-parse', '--short=7', 'HEAD');
    repository.git('checkout', '-q', '-b', 'work');
    repository.git('checkout', '-q', 'main');
    // Main goes on: it removes the column. The branch has not, and that is no change of its own.
    repository.write(FILE, ordersContract(WITHOUT_PAID_AT, version('2.0.0')));
    repository.commit('main moves');
    repository.git('checkout', '-q', 'work');
    const clean = await check('--against', 'main');
    expect(clean).toMatchObject({ exit: 0, codes: [] });
    expect(clean.contracts[0]).toMatchObject({ base: fork, versionBefore: '1.0.0' });

    repository.write(FILE, ordersContract(WITHOUT_PAID_AT, version('1.0.1')));
    const broken = await check('--against', 'main');
    expect(broken.exit).toBe(1);
    expect(broken.codes).toEqual(['error VERSION_TOO_SMALL', 'error COLUMN_REMOVED']);
    expect(broken.contracts[0]?.findings[1]).toMatchObject({ subject: 'orders.paid_at' });
  });

  it('dereferences annotated tags, and takes a sha', async () => {
    repository.git('tag', '-a', 'v1.0.0', '-m', 'release');
    const sha = repository.git('rev-parse', 'HEAD');
    repository.write(FILE, ordersContract(WITHOUT_PAID_AT, version('1.1.0')));
    repository.commit('second');
    for (const ref of ['v1.0.0', sha, sha.slice(0, 10)])
      expect((await check('--against', ref)).codes).toContain('error COLUMN_REMOVED');
  });

  it('takes a folder and a file', async () => {
    const other = realpathSync(mkdtempSync(join(tmpdir(), 'contracts-base-')));
    writeFileSync(join(other, 'public.orders.odcs.yaml'), ordersContract());
    repository.write(FILE, ordersContract(WITHOUT_PAID_AT, version('1.1.0')));
    for (const path of [other, join(other, 'public.orders.odcs.yaml')])
      expect((await check('--against', path)).codes).toContain('error COLUMN_REMOVED');
  });

  it('a missing ref ends with 3 and the command that fetches it', async () => {
    repository.git('remote', 'add', 'origin', repository.folder);
    const branch = await check('--against', 'origin/release');
    expect(branch.exit).toBe(3);
    expect(branch.problems).toEqual([
      expect.objectContaining({
        code: 'GIT_REF_MISSING',
        remedy: 'run: git fetch origin +refs/heads/release:refs/remotes/origin/release',
      }),
    ]);
    expect((await check('--against', 'v9.9.9')).problems[0]?.remedy).toBe(
      'run: git fetch origin +refs/tags/v9.9.9:refs/tags/v9.9.9',
    );
  });

  it('a shallow clone that lacks the history ends with 3, and the printed command cures it', async () => {
    repository.git('checkout', '-q', '-b', 'work');
    repository.write(FILE, ordersContract(WITHOUT_PAID_AT, version('1.0.1')));
    repository.commit('on the branch');
    repository.git('checkout', '-q', 'main');
    repository.write('other.txt', 'x');
    repository.commit('main moves');
    const clone = mkdtempSync(join(tmpdir(), 'contracts-shallow-'));
    repository.git('clone', '-q', '--depth', '1', '--branch', 'work', `file://${repository.folder}`, clone);
    const shallow = openRepository(realpathSync(clone));
    try {
      const args = ['check', 'contracts', '--against', 'origin/main', '--format', 'json'];
      const before = await contracts(shallow.folder, args);
      expect(before.exit).toBe(3);
      const { problems } = JSON.parse(before.out) as Shown;
      expect(problems).toHaveLength(1);
      const command = /^run: git (.*)$/.exec(problems[0]?.remedy ?? '')?.[1];
      shallow.git(...(command ?? '').split(' '));
      const after = await contracts(shallow.folder, args);
      expect(after.exit).toBe(1);
      expect(after.out).toContain('COLUMN_REMOVED');
    } finally {
      shallow.dispose();
    }
  });

  it('a contract deleted since the base is TABLE_REMOVED; a new one passes; a moved one is the same', async () => {
    repository.write(
      'contracts/public.parcels.odcs.yaml',
      ordersContract([/shop.public.orders/, 'shop.public.parcels'], [/public\.orders$/m, 'public.parcels']),
    );
    expect((await check('--against', 'main')).codes).toEqual([]);
    repository.remove(FILE);
    const removed = await check('--against', 'main');
    expect(removed.exit).toBe(1);
    expect(removed.codes).toEqual(['error TABLE_REMOVED']);
    expect(removed.contracts.at(-1)).toMatchObject({ file: FILE });

    repository.write('contracts/sales/orders.odcs.yaml', ordersContract());
    expect((await check('--against', 'main')).codes).toEqual([]);
  });

  it('transitive modes look at every released version, others only at the last', async () => {
    repository.git('tag', 'r1');
    repository.write(
      FILE,
      ordersContract([/paid_at/, 'settled_at'], [/id: c5/, 'id: c6'], version('1.1.0'), [
        /status: active/,
        'status: draft',
      ]),
    );
    repository.commit('second');
    repository.git('tag', '-a', 'r2', '-m', 'r2');
    repository.write(
      FILE,
      ordersContract([/paid_at/, 'settled_at'], [/id: c5/, 'id: c6'], version('1.1.0'), [
        /status: active/,
        'status: draft',
      ]),
    );
    const all = await check('--against', 'r2');
    expect(all.codes).toEqual(['error VERSION_TOO_SMALL', 'error COLUMN_REMOVED']);
    expect(all.contracts[0]?.findings[1]?.message).toContain('against 1.0.0, r1');
    expect((await check('--against', 'r2', '--mode', 'FORWARD')).codes).toEqual([]);
    expect((await check('--against', 'r2', '--mode', 'FORWARD', '--all-versions')).codes).toContain(
      'error COLUMN_REMOVED',
    );
  });

  it('a base that was invalid compares nothing and says so; one that is invalid now ends with 2', async () => {
    repository.write(FILE, ordersContract([/mustBeGreaterThan: 0/, 'mustBeGreaterThen: 0']));
    const sha = repository.commit('a slip');
    const slip = await check('--against', 'main');
    expect(slip.exit).toBe(2);
    repository.write(FILE, ordersContract());
    expect((await check('--against', sha)).codes).toEqual(['warning BASE_INVALID']);
  });

  it('outside a repository a ref ends with 3', async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'contracts-plain-')));
    writeFileSync(join(folder, 'a.odcs.yaml'), ordersContract());
    const run = await contracts(folder, ['check', '.', '--against', 'main']);
    expect(run.exit).toBe(3);
    expect(run.out).toMatch(/neither a folder nor a file, and git cannot read \.: fatal: not a git repository/);
    const none = await contracts(folder, ['check', '.', '--against', 'main'], {
      git: () => Promise.resolve({ code: 127, stdout: '', stderr: 'spawn git ENOENT' }),
    });
    expect([none.exit, none.out]).toEqual([3, expect.stringContaining('git is not installed')]);
  });

  it('names files from the root of the repository where a machine reads them', async () => {
    repository.write(`data/${FILE}`, ordersContract(WITHOUT_PAID_AT, version('1.0.1')));
    const folder = join(repository.folder, 'data');
    const run = (format: string): Promise<{ out: string }> =>
      contracts(folder, ['check', 'contracts', '../contracts', '--against', '../contracts', '--format', format]);
    const { out } = await run('sarif');
    const places = [...out.matchAll(/"uri": "([^"]*)"/g)].map(([, uri]) => uri);
    expect(new Set(places)).toEqual(new Set([`data/${FILE}`, FILE]));
    expect((await run('github')).out).toContain(`file=data/${FILE},line=`);
    expect((await run('text')).out).toMatch(/^contracts\/public\.orders/m);
  });

  it('a private column made public is an error in every mode', async () => {
    repository.write(
      FILE,
      ordersContract(
        [/classification: restricted, tags: \[pii\], .*$/m, 'classification: internal}'],
        version('2.0.0'),
      ),
    );
    for (const mode of ['NONE', 'BACKWARD', 'FORWARD', 'FULL', 'FULL_TRANSITIVE'])
      expect((await check('--against', 'main', '--mode', mode)).codes).toContain('error PII_DOWNGRADE');
  });
});
