/** `contracts export`: a contract in another language. What the target cannot say is listed; `--strict` makes that an error. */
import { resolve } from 'node:path';
import { Option } from 'commander';
import { EXPORT_TARGETS, exportContract } from '../engine/export/export-contract.ts';
import type { ExportTarget } from '../engine/export/export-contract.ts';
import { formatFinding } from '../engine/finding.ts';
import { openSettings } from './arguments.ts';
import type { Register } from './arguments.ts';
import { loadContracts, openScopes } from './contract-set.ts';
import { EXIT } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import type { Ports } from './ports.ts';
import { sourceName } from '../engine/source-name.ts';
import { matchesTable } from './table-name.ts';

interface Flags {
  readonly to: ExportTarget;
  readonly contracts?: string;
  readonly table?: string;
  readonly out?: string;
  readonly strict?: boolean;
}

export const registerExport: Register = ({ program, ports, action }) => {
  program
    .command('export')
    .description('write contracts as schemas, DDL, constraints or documentation')
    .argument('[paths...]', 'contract files, or folders of them (default: contracts)')
    .addOption(new Option('--to <target>', 'what to write').choices(EXPORT_TARGETS).makeOptionMandatory())
    .option('--table <glob>', 'only these tables')
    .option('--contracts <folder>', 'where the contracts are')
    .option('--out <folder>', 'a file a table there, instead of all on stdout')
    .option('--strict', 'end with 1 if the target cannot say everything')
    .action(
      action((given: readonly string[], flags: Flags) => {
        const { paths } = openSettings(ports, given, flags.contracts);
        return Promise.resolve(runExport(ports, paths, flags));
      }),
    );
};

const EXTENSIONS: Readonly<Record<ExportTarget, string>> = {
  jsonschema: 'schema.json',
  ajv: 'validate.cjs',
  'delta-ddl': 'delta.sql',
  'delta-constraints': 'constraints.sql',
  'postgres-ddl': 'postgres.sql',
  avro: 'avsc',
  odcs: 'odcs.yaml',
  markdown: 'md',
};

function runExport(ports: Ports, paths: readonly string[], flags: Flags): ExitCode {
  const files = loadContracts(ports, openScopes(ports, paths), flags.table ?? null);
  let lossy = 0;
  const before = new Set<string>();
  let invalid = false;
  for (const { contract, findings } of files) {
    if (contract === null) {
      for (const finding of findings) ports.err(`${formatFinding(finding)}\n`);
      invalid = true;
      continue;
    }
    const tables = contract.tables.filter((table) => matchesTable(flags.table ?? null, contract, table));
    // ODCS is the whole contract, whatever tables it has.
    for (const table of flags.to === 'odcs' ? tables.slice(0, 1) : tables) {
      const result = exportContract(contract, table, flags.to);
      const name = sourceName(contract, table);
      const file = `${name.schema}.${name.table}.${EXTENSIONS[flags.to]}`.replaceAll('/', '_');
      const fresh = (result.before ?? []).filter((statement) => !before.has(statement));
      for (const statement of fresh) before.add(statement);
      const text = [...fresh, result.text].join('\n');
      if (flags.out === undefined) ports.out(text.endsWith('\n') ? text : `${text}\n`);
      else ports.files.write(resolve(ports.cwd, flags.out, file), text);
      for (const { subject, message } of result.lossy) ports.err(`lossy ${subject}: ${message}\n`);
      lossy += result.lossy.length;
    }
  }
  if (invalid) return EXIT.usage;
  return flags.strict === true && lossy > 0 ? EXIT.findings : EXIT.clean;
}
