/**
 * The SQL with which a database's owner prepares it for Sluice: a role with no more rights than it needs, and the
 * publication, which only the tables' owner may make. Pure text; `sluice init` writes it as grants.sql, a person reads it
 * and runs it.
 */

/** Where PostgreSQL runs: logical replication is switched on, and its privilege granted, differently at each. */
export type ServerKind = 'plain' | 'rds' | 'cloud-sql' | 'azure' | 'supabase' | 'neon';

export interface GrantedTable {
  readonly schema: string;
  readonly table: string;
  /** Of a partitioned table: what holds its rows. A snapshot reads them one by one, and PostgreSQL then asks for a right on each. */
  readonly partitions?: readonly { readonly schema: string; readonly table: string }[];
}

export interface GrantsRequest {
  readonly server: ServerKind;
  readonly database: string;
  readonly role: string;
  readonly publication: string;
  readonly slot: string;
  readonly tables: readonly GrantedTable[];
  /** Schemas whose tables, those created later included, are all followed (`source.tables: ["public.*"]`). PostgreSQL 15+ for these. */
  readonly wholeSchemas: readonly string[];
  /** Major version of the server. */
  readonly major: number;
}

/** PostgreSQL's rule for delimited identifiers. @throws RangeError for what no identifier can hold */
export function quoteIdentifier(name: string): string {
  if (name === '' || name.includes('\0')) throw new RangeError('an identifier must not be empty or hold a NUL');
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text constant; safe whatever standard_conforming_strings is. */
export function quoteLiteral(text: string): string {
  if (text.includes('\0')) throw new RangeError('a text constant cannot hold a NUL');
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}

/** What must be set at the server before, by hand, in its own console. One paragraph of comment. */
const SWITCH_ON: Readonly<Record<ServerKind, string>> = {
  plain: `wal_level must be logical: alter system set wal_level = logical; then restart the server.
pg_hba.conf must let the role in, for the database and for replication (the word all does not cover replication):
  hostssl <database> <role> <address> scram-sha-256
  hostssl replication <role> <address> scram-sha-256`,
  rds: `Amazon RDS and Aurora: in the DB (cluster) parameter group set rds.logical_replication = 1, then reboot. That sets
wal_level; max_replication_slots and max_wal_senders are in the same group. Connect to the instance's (Aurora: the writer's)
endpoint, not to RDS Proxy, which does not carry replication.`,
  'cloud-sql': `Google Cloud SQL: set the flag cloudsql.logical_decoding = on (the instance restarts). Connect to the instance
itself, by private address or by the Auth Proxy.`,
  azure: `Azure Database for PostgreSQL, flexible server: set the server parameter wal_level = LOGICAL and save (the server
restarts). Connect to port 5432, not to the built-in PgBouncer on 6432.`,
  supabase: `Supabase has wal_level = logical. Use the direct connection (db.<project>.supabase.co:5432), not the pooler: a pooler
does not carry replication. The direct address may be IPv6 only unless the project has the IPv4 add-on.`,
  neon: `Neon: switch on Logical Replication in the project's settings (it cannot be switched off again). Use the connection
string without -pooler. A compute that scales to zero drops the connection; Sluice connects again and goes on.`,
};

export function grantsSql(request: GrantsRequest): string {
  const role = quoteIdentifier(request.role);
  const sections = [
    comment(
      `Rights for Sluice in database ${request.database}, to be run there by the owner of its tables (psql -f grants.sql).
It reads tables and the replication stream; it writes nothing and owns nothing.

Before this file:
${SWITCH_ON[request.server]}`,
    ),
    roleSection(request, role),
    readSection(request, role),
    publicationSection(request),
    comment(
      `The slot is made by Sluice when it starts. To make it yourself, after the publication above:
  select pg_create_logical_replication_slot(${quoteLiteral(request.slot)}, 'pgoutput');
To take everything back: \`sluice teardown --yes\`, then drop owned by ${role}; drop role ${role};`,
    ),
  ];
  return `${sections.join('\n\n')}\n`;
}

function roleSection(request: GrantsRequest, role: string): string {
  const create = comment(
    'The role. Set its password with \\password in psql, so that it stands in no file and no log.',
  );
  switch (request.server) {
    case 'plain':
    case 'supabase':
    case 'cloud-sql':
    case 'azure':
      return `${create}\n${createRole(request, 'login replication')}`;
    case 'rds':
      return `${create}\n${createRole(request, 'login')}\n${comment(
        'RDS does not give away the REPLICATION attribute; membership in rds_replication stands for it.',
      )}\ngrant rds_replication to ${role};`;
    case 'neon':
      return `${comment(
        'Neon: a role made by SQL cannot have REPLICATION. Make the role in the console or with `neon roles create`:\nsuch roles have it.',
      )}`;
  }
}

/** `create role` has no IF NOT EXISTS; running the file twice must not fail. */
function createRole({ role: plain }: GrantsRequest, attributes: string): string {
  const [name, role] = [quoteLiteral(plain), quoteIdentifier(plain)];
  return doBlock(`  if not exists (select from pg_catalog.pg_roles where rolname = ${name}) then
    create role ${role} ${attributes};
  else
    alter role ${role} ${attributes};
  end if;`);
}

/** An anonymous block; its dollar quote is one that does not occur in it, whatever the identifiers hold. */
function doBlock(body: string): string {
  let tag = '$grants$';
  while (body.includes(tag)) tag = `$${tag.slice(1, -1)}x$`;
  return `do ${tag}\nbegin\n${body}\nend\n${tag};`;
}

function readSection(request: GrantsRequest, role: string): string {
  const read = request.tables.flatMap((table) => [table, ...(table.partitions ?? [])]);
  const schemas = new Set([...request.wholeSchemas, ...read.map(({ schema }) => schema)]);
  const whole = new Set(request.wholeSchemas);
  const lines = [
    comment('Reading, for snapshots and for `sluice verify`.'),
    `grant connect on database ${quoteIdentifier(request.database)} to ${role};`,
    ...[...schemas].map((schema) => `grant usage on schema ${quoteIdentifier(schema)} to ${role};`),
  ];
  for (const schema of whole) {
    const name = quoteIdentifier(schema);
    lines.push(
      `grant select on all tables in schema ${name} to ${role};`,
      comment(
        'Tables that the role which runs this file creates later. Other owners of tables must run this line too.',
      ),
      `alter default privileges in schema ${name} grant select on tables to ${role};`,
    );
  }
  const single = read.filter(({ schema }) => !whole.has(schema));
  for (const { schema, table } of single) lines.push(`grant select on table ${qualified(schema, table)} to ${role};`);
  if (request.tables.some(({ schema, partitions = [] }) => partitions.length > 0 && !whole.has(schema)))
    lines.push(comment('A partition that is attached later takes such a line of its own, or it cannot be read again.'));
  lines.push(
    comment(
      'Rows under row-level security that the role may not see would be missing in the lake: Sluice refuses such tables.',
    ),
  );
  return lines.join('\n');
}

function publicationSection(request: GrantsRequest): string {
  const name = quoteIdentifier(request.publication);
  const schemas = request.wholeSchemas.map(quoteIdentifier);
  const single = request.tables
    .filter(({ schema }) => !request.wholeSchemas.includes(schema))
    .map(({ schema, table }) => qualified(schema, table));
  const how = comment(
    'What is published. Partitioned tables as one (publish_via_partition_root). Sluice creates it only where it may.',
  );
  // FOR TABLES IN SCHEMA takes a superuser, whom no managed service gives away; single tables take their owner.
  const bySchema = request.server === 'plain' && request.major >= 15;
  if (bySchema || schemas.length === 0) {
    const objects = [
      ...(single.length === 0 ? [] : [`table ${single.join(', ')}`]),
      ...(schemas.length === 0 ? [] : [`tables in schema ${schemas.join(', ')}`]),
    ];
    return `${how}\n${createPublication(request, name, objects.join(', '))}`;
  }
  const all = request.tables.map(({ schema, table }) => qualified(schema, table));
  return [
    how,
    createPublication(request, name, all.length === 0 ? '' : `table ${all.join(', ')}`),
    comment(`For a table created later: alter publication ${name} add table …;`),
  ].join('\n');
}

function createPublication(request: GrantsRequest, name: string, objects: string): string {
  const target = objects === '' ? '' : ` for ${objects}`;
  // As the reader makes it: the contracts that `init` writes name the stored generated columns, too.
  const options = [
    'publish_via_partition_root = true',
    ...(request.major >= 18 ? ['publish_generated_columns = stored'] : []),
  ];
  return doBlock(`  if not exists (select from pg_catalog.pg_publication where pubname = ${quoteLiteral(request.publication)}) then
    create publication ${name}${target} with (${options.join(', ')});
  end if;`);
}

function qualified(schema: string, table: string): string {
  return `${quoteIdentifier(schema)}.${quoteIdentifier(table)}`;
}

function comment(text: string): string {
  return text
    .split('\n')
    .map((line) => `-- ${line}`.trimEnd())
    .join('\n');
}
