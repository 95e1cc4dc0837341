/**
 * Topics written by Debezium as the stream's source: `log.debezium.topics` names them, and each table's contract says what
 * its columns are (a topic's last two parts are schema and table, as Debezium names it).
 */
import { lintContract } from '../../../contracts/engine/lint.ts';
import { contractFileName } from '../../../contracts/engine/infer.ts';
import type { Column, TableContract } from '../../../contracts/engine/model.ts';
import { parsePgType } from '../../../contracts/engine/pg-type.ts';
import type { ContractFiles } from '../../ingest/contract-files.ts';
import type { ForeignTable } from '../../ingest/foreign-topics.ts';
import type { ColumnShape, TableShape } from '../../log/event.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError } from '../../runtime/errors.ts';

/** Null when the log is our own reader's. @throws ConfigError naming the topic whose contract is missing or not valid */
export async function foreignTables(config: Config, contracts: ContractFiles): Promise<readonly ForeignTable[] | null> {
  const { topics, decimals, times, binary, placeholder } = config.log.debezium;
  if (topics.length === 0) return null;
  const tables: ForeignTable[] = [];
  for (const [index, topic] of topics.entries()) {
    const [schema, table] = topic.split('.').slice(-2);
    if (schema === undefined || table === undefined || topic.split('.').length < 3) {
      throw new ConfigError(
        `log.debezium.topics: '${topic}' is no Debezium topic`,
        'expected <prefix>.<schema>.<table>',
      );
    }
    const found = await contracts.load(schema, table);
    if (found === null) {
      throw new ConfigError(
        `topic ${topic} needs a contract: ${config.contracts}/${contractFileName({ schema, table })} does not exist`,
        'write it with `contracts infer --from postgres` (or ddl): the topic does not say what its columns are',
      );
    }
    const { contract, findings } = lintContract(found.text, found.file);
    const described = contract?.tables[0];
    if (described === undefined) {
      const first = findings.find((finding) => finding.level === 'error');
      throw new ConfigError(
        `${found.file} is not valid: ${first?.message ?? 'it names no table'}`,
        'run `contracts check`',
      );
    }
    tables.push({
      topic,
      shape: shapeOfContract(described, { schema, table, version: index + 1 }),
      modes: { decimals, times, binary, placeholder },
    });
  }
  return tables;
}

/** A table as the source would describe it, from its contract's physical types. */
export function shapeOfContract(
  described: TableContract,
  name: { readonly schema: string; readonly table: string; readonly version: number },
): TableShape {
  const columns = described.columns.map((column) => shapeOfColumn(column));
  return { ...name, oid: 0, columns };
}

function shapeOfColumn(column: Column): ColumnShape {
  const pgType = column.physicalTypes.postgres ?? column.physicalType ?? 'text';
  const type = parsePgType(pgType);
  const labels = column.allowedValues?.map(String) ?? null;
  const isEnum = !type.array && !type.known && labels !== null;
  return {
    name: column.physicalName ?? column.name,
    typeOid: 0,
    typeModifier: -1,
    pgType,
    baseType: type.array ? pgType.replace(/(\[\d*\])+$/, '') : null,
    kind: type.array ? 'array' : isEnum ? 'enum' : 'base',
    enumLabels: isEnum ? labels : null,
    notNull: column.required,
    keyPosition: column.keyPosition,
  };
}
