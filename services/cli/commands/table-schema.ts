import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import type { DeltaType } from '../../../lakehouse/table/schema.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { printColumns } from '../print-columns.ts';
import { openTablePlace, openToRead, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

/** `sluice table schema`: the columns; as JSON the very schema text of the log. */
export const schemaCommand: CommandModule = (table, context) => {
  tableCommand(table, 'schema', 'the columns')
    .option('--at <version|time>', 'an older version')
    .action(
      context.run(async (name: string, options: TableOptions & { readonly at?: string }) => {
        const store = openTablePlace(context, name, options);
        const { schema, metadata } = await openToRead(context, store, options.at);
        if (options.json === true) {
          context.out(`${stringifyLossless(schema)}\n`);
          return ExitCode.clean;
        }
        const rows = schema.fields.map((field) => [
          field.name,
          typeText(field.type),
          field.nullable ? '' : 'not null',
          metadata.partitionColumns.includes(field.name) ? 'partition' : '',
          typeof field.metadata['comment'] === 'string' ? field.metadata['comment'] : '',
        ]);
        context.out(printColumns(['column', 'type', '', '', 'comment'], rows));
        return ExitCode.clean;
      }),
    );
};

/** As SQL writes it: `array<struct<a: long>>`. */
function typeText(type: DeltaType): string {
  if (typeof type === 'string') return type;
  switch (type.type) {
    case 'array':
      return `array<${typeText(type.elementType)}>`;
    case 'map':
      return `map<${typeText(type.keyType)}, ${typeText(type.valueType)}>`;
    case 'struct':
      return `struct<${type.fields.map((field) => `${field.name}: ${typeText(field.type)}`).join(', ')}>`;
  }
}
