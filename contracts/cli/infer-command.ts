/** `contracts infer`: contracts for tables that there are, or an existing contract brought up to date. */
import { join, resolve } from 'node:path';
import { Option } from 'commander';
import type { CatalogTable } from '../engine/catalog.ts';
import { selectTable } from '../engine/compile.ts';
import { contractFileName, inferContract } from '../engine/infer.ts';
import type { InferNote, InferResult } from '../engine/infer.ts';
import type { SampleColumn } from '../engine/infer-samples.ts';
import type { Contract, TableContract } from '../engine/model.ts';
import { ContractError, parseContract } from '../engine/parse.ts';
import { updateContract } from '../engine/update-contract.ts';
import type { Register } from './arguments.ts';
import { CommandError, EXIT, usageError } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import { findTables, INFER_SOURCES } from './infer-sources.ts';
import type { FoundTable, InferSource } from './infer-sources.ts';
import type { Ports } from './ports.ts';
import { sourceName } from '../engine/source-name.ts';

interface Flags {
  readonly from: InferSource;
  readonly table?: string;
  readonly key?: string;
  readonly name: string;
  readonly config?: string;
  readonly out?: string;
  readonly update?: string;
  readonly strict?: boolean;
}

export const registerInfer: Register = ({ program, ports, action }) => {
  program
    .command('infer')
    .description('write contracts for tables, topics, DDL or a JSON Schema; or update one')
    .argument('[input]', 'postgres: URL; delta: the lake’s URI; ddl, jsonschema: a file')
    .addOption(new Option('--from <kind>', 'where to look').choices(INFER_SOURCES).makeOptionMandatory())
    .option('--table <name>', 'SCHEMA.TABLE; a glob for postgres and ddl')
    .option('--key <columns>', 'key columns with commas between, where the source does not say')
    .option('--name <pipeline>', 'first part of the contracts’ ids', 'sluice')
    .option('--config <file>', 'for topic: the configuration that names the log (default: ./sluice.yaml)')
    .option('--out <folder>', 'a file a table there, instead of one contract on stdout')
    .option('--update <file>', 'bring this contract up to date; comments and edits stay')
    .option('--strict', 'end with 1 if anything was guessed, passed over or needs a choice')
    .action(action((input: string | undefined, flags: Flags) => runInfer(ports, input ?? null, flags)));
};

async function runInfer(ports: Ports, input: string | null, flags: Flags): Promise<ExitCode> {
  const update = flags.update === undefined ? null : openUpdate(ports, flags.update);
  const wanted = flags.table !== undefined ? [flags.table] : (update?.names ?? [null]);
  const tables: FoundTable[] = [];
  for (const table of wanted)
    tables.push(
      ...(await findTables(ports, {
        from: flags.from,
        input,
        table,
        keys: flags.key?.split(',').map((name) => name.trim()) ?? [],
        config: flags.config ?? null,
      })),
    );
  if (update === null && tables.length > 1 && flags.out === undefined)
    throw usageError(`${tables.length} tables, one stdout`, 'name a folder with --out, or one table with --table');
  let doubts = 0;
  for (const found of tables) {
    if (found.table.columns.length === 0) {
      ports.err(`look at ${found.table.schema}.${found.table.table}: it has no columns, and was passed over\n`);
      doubts++;
      continue;
    }
    const inferred = inferContract(found.table, { name: flags.name });
    if (update !== null) writeUpdate(ports, update, found.table, inferred);
    else writeNew(ports, found, `${inferred.text}${proposals(found.samples)}`, flags.out ?? null);
    doubts += tell(ports, found, inferred.notes);
  }
  return flags.strict === true && doubts > 0 ? EXIT.findings : EXIT.clean;
}

function writeNew(ports: Ports, found: FoundTable, text: string, folder: string | null): void {
  if (folder === null) {
    ports.out(text);
    return;
  }
  const path = join(resolve(ports.cwd, folder), contractFileName(found.table));
  if (ports.files.kind(path) !== null)
    throw usageError(
      `${join(folder, contractFileName(found.table))} is there already`,
      'use --update FILE to bring it up to date',
    );
  ports.files.write(path, text);
  ports.err(`wrote ${join(folder, contractFileName(found.table))}\n`);
}

interface Update {
  readonly path: string;
  readonly file: string;
  /** `public.orders` */
  readonly names: readonly string[];
}

function openUpdate(ports: Ports, file: string): Update {
  const path = resolve(ports.cwd, file);
  if (ports.files.kind(path) !== 'file')
    throw new CommandError('PATH_MISSING', EXIT.usage, `${file} is no file`, 'name the contract to update');
  const { contract, findings } = parseContract(ports.files.read(path), file);
  if (contract === null) throw new ContractError(findings);
  const names = contract.tables.map((table) => {
    const { schema, table: name } = sourceName(contract, table);
    return `${schema}.${name}`;
  });
  return { path, file, names };
}

function entryOf(contract: Contract, live: CatalogTable): TableContract {
  const entry = contract.tables.find((table) => {
    const { schema, table: name } = sourceName(contract, table);
    return schema === live.schema && name === live.table;
  });
  return entry ?? selectTable(contract, live);
}

/** Each table of the contract reads the text anew: the one before it may have moved every line. */
function writeUpdate(ports: Ports, update: Update, live: CatalogTable, inferred: InferResult): void {
  const text = ports.files.read(update.path);
  const { contract, findings } = parseContract(text, update.file);
  if (contract === null) throw new ContractError(findings);
  const result = updateContract(text, contract, entryOf(contract, live), inferred);
  const after = parseContract(result.text, update.file);
  // Never leave a file behind that cannot be read.
  if (after.contract === null) throw new ContractError(after.findings);
  if (result.text !== text) ports.files.write(update.path, result.text);
  for (const change of result.changes) ports.err(`${update.file}: ${change}\n`);
  for (const item of result.left) ports.err(`look at ${update.file}: ${item}\n`);
  if (result.changes.length === 0) ports.err(`${update.file} is up to date\n`);
}

const DOUBTFUL: ReadonlySet<InferNote['code']> = new Set(['TYPE_UNKNOWN', 'CHOICE_NEEDED', 'NOT_REPRESENTABLE']);

/** Says what a person should look at; returns how much of it `--strict` refuses. */
function tell(ports: Ports, found: FoundTable, notes: readonly InferNote[]): number {
  const name = `${found.table.schema}.${found.table.table}`;
  for (const { column, message } of notes)
    ports.err(`look at ${name}${column === null ? '' : `.${column}`}: ${message}\n`);
  for (const item of found.lost) ports.err(`look at ${name}: ${item}\n`);
  return found.lost.length + notes.filter(({ code }) => DOUBTFUL.has(code)).length;
}

const ROWS_MIN = 20;
const VALUES_MAX = 12;
const VALUE_LENGTH_MAX = 40;

/** What a sample showed and what might become a rule, as comments: a sample proves nothing. */
function proposals(columns: readonly SampleColumn[]): string {
  const lines = columns.map(({ name, rows, nulls, distinct }) => {
    const ratio = rows === 0 ? 0 : Math.round((nulls * 10_000) / rows) / 100;
    const values = distinct === null ? 'more than 50 distinct values' : `${distinct.length} distinct values`;
    const short =
      distinct !== null && distinct.length <= VALUES_MAX && distinct.every((text) => text.length <= VALUE_LENGTH_MAX);
    const repeated = distinct !== null && distinct.length * 4 <= rows - nulls;
    const rule =
      short && repeated && rows >= ROWS_MIN
        ? `; a rule? {metric: invalidValues, arguments: {validValues: [${distinct.map((text) => JSON.stringify(text)).join(', ')}]}, mustBe: 0}`
        : '';
    return `# ${name}: ${rows} rows, ${ratio}% null, ${values}${rule}\n`;
  });
  return lines.length === 0 ? '' : `# Seen in a sample:\n${lines.join('')}`;
}
