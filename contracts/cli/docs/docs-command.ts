/** `contracts docs`: a static catalogue, a page a table, in HTML and Markdown. */
import { join, resolve } from 'node:path';
import { formatFinding } from '../../engine/finding.ts';
import type { Contract } from '../../engine/model.ts';
import { parseContract } from '../../engine/parse.ts';
import { openSettings } from '../arguments.ts';
import type { Register } from '../arguments.ts';
import { loadContracts, openScopes } from '../contract-set.ts';
import type { Scope } from '../contract-set.ts';
import { EXIT } from '../exit-code.ts';
import type { ExitCode } from '../exit-code.ts';
import { gitBase, resolveCommit } from '../git-base.ts';
import type { Ports } from '../ports.ts';
import { settingFor } from '../settings.ts';
import type { Settings } from '../settings.ts';
import { sourceName } from '../../engine/source-name.ts';
import { matchesTable } from '../table-name.ts';
import { lineageOf, versionsOf } from './catalogue.ts';
import type { CatalogueEntry } from './catalogue.ts';
import { indexPage, tablePage } from './html-page.ts';
import { indexMarkdown, tableMarkdown } from './markdown-page.ts';

interface Flags {
  readonly out: string;
  readonly contracts?: string;
  readonly table?: string;
}

export const registerDocs: Register = ({ program, ports, action }) => {
  program
    .command('docs')
    .description('a static catalogue: columns, rules, lineage, and what each released version changed (git tags)')
    .argument('[paths...]', 'contract files, or folders of them (default: contracts)')
    .requiredOption('--out <folder>', 'where to write')
    .option('--contracts <folder>', 'where the contracts are')
    .option('--table <glob>', 'only these tables')
    .action(
      action(async (given: readonly string[], flags: Flags) => {
        const { paths, settings } = openSettings(ports, given, flags.contracts);
        return runDocs(ports, paths, flags, settings);
      }),
    );
};

async function runDocs(ports: Ports, paths: readonly string[], flags: Flags, settings: Settings): Promise<ExitCode> {
  const scopes = openScopes(ports, paths);
  const files = loadContracts(ports, scopes, flags.table ?? null);
  const faults = files.filter(({ contract }) => contract === null).flatMap(({ findings }) => findings);
  if (faults.length > 0) {
    for (const finding of faults) ports.err(`${formatFinding(finding)}\n`);
    return EXIT.usage;
  }
  const released = await releasedContracts(ports, scopes);
  const pageFor = pageNames();
  const entries = files.flatMap(({ contract }): CatalogueEntry[] => {
    if (contract === null) return [];
    const own = released.filter(({ contract: old }) => (settings.aliases.get(old.id) ?? old.id) === contract.id);
    const versions = versionsOf(contract, own);
    return contract.tables
      .filter((table) => matchesTable(flags.table ?? null, contract, table))
      .map((table) => {
        const { schema, table: name } = sourceName(contract, table);
        const owner = contract.owner ?? settingFor(settings.owners, contract);
        const page = pageFor(`${schema}.${name}`);
        return { contract, table, page, owner, lineage: lineageOf(contract, table), versions };
      });
  });
  writeCatalogue(ports, resolve(ports.cwd, flags.out), entries);
  ports.out(`wrote ${entries.length} table${entries.length === 1 ? '' : 's'} to ${flags.out}\n`);
  return EXIT.clean;
}

/** A table's name as that of a file; two that a disk cannot keep apart get a number. */
function pageNames(): (name: string) => string {
  const taken = new Set<string>();
  return (name) => {
    const plain = name.replaceAll(/[/\\:*?"<>|\u0000-\u001f]/g, '_'); // oxlint-disable-line no-control-regex -- they are what files cannot have
    let page = plain;
    for (let again = 2; taken.has(page.toLowerCase()); again++) page = `${plain}~${again}`;
    taken.add(page.toLowerCase());
    return page;
  };
}

function writeCatalogue(ports: Ports, folder: string, entries: readonly CatalogueEntry[]): void {
  const pageOf = (name: string): string | null =>
    entries.find(({ table, page }) => table.name === name || page === name)?.page ?? null;
  for (const entry of entries) {
    ports.files.write(join(folder, `${entry.page}.html`), tablePage(entry, pageOf));
    ports.files.write(join(folder, `${entry.page}.md`), tableMarkdown(entry));
  }
  ports.files.write(join(folder, 'index.html'), indexPage(entries));
  ports.files.write(join(folder, 'index.md'), indexMarkdown(entries));
}

/** Outside a repository, and before the first tag, there is no history to tell. */
async function releasedContracts(
  ports: Ports,
  scopes: readonly Scope[],
): Promise<{ readonly label: string; readonly contract: Contract }[]> {
  const folder = scopes[0]?.folder ?? ports.cwd;
  const head = await resolveCommit(ports, 'HEAD', folder);
  if (head === null) return [];
  const { released } = await gitBase(ports, head, scopes, { releases: true, exact: true });
  return released.flatMap(({ label, file, text }) => {
    const { contract } = parseContract(text, file);
    return contract === null ? [] : [{ label, contract }];
  });
}
