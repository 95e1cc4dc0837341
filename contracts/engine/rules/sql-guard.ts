/**
 * A first, cheap look at an SQL rule: one SELECT, nothing that reaches outside the table. The SQL runner is sandboxed besides;
 * this gives the answer at lint time, with a place.
 */
const REFUSED_WORDS =
  /\b(?:insert|update|delete|merge|create|alter|drop|truncate|attach|detach|copy|export|import|install|load|set|reset|pragma|call|execute|prepare|begin|commit|rollback|vacuum|checkpoint|use|grant|revoke)\b/i;
const REFUSED_FUNCTIONS =
  /\b(?:read_(?:csv|csv_auto|parquet|json|json_auto|json_objects|ndjson|ndjson_auto|ndjson_objects|text|blob)|parquet_\w+|sniff_csv|glob|getenv|query|query_table|duckdb_\w+|pragma_\w+|iceberg_\w+|delta_scan|postgres_\w+|sqlite_\w+|pg_(?:read|ls|stat_file|sleep|terminate|cancel|logical|advisory|try_advisory|reload|rotate|switch|create|drop|promote|backup|wal|export|file)\w*|dblink\w*|lo_\w+|set_config|nextval|setval|query_to_xml\w*|xpath_table)\s*\(/i;

/** Null when the text may run, else why not. */
export function checkSelectOnly(query: string): string | null {
  const code = withoutLiterals(query);
  if (code === null) return 'a quote or a comment is not closed';
  const statement = code.trim().replace(/;+\s*$/, '');
  if (statement === '') return 'the query is empty';
  if (statement.includes(';')) return 'one SELECT only, found several statements';
  if (!/^(?:select|with|\()/i.test(statement)) return 'only SELECT is allowed';
  const word = REFUSED_WORDS.exec(statement);
  if (word !== null) return `only SELECT is allowed, found ${word[0].toUpperCase()}`;
  if (/"q"\s*\(/.test(statement)) return 'a function is called by a quoted name; write it plainly';
  const call = REFUSED_FUNCTIONS.exec(statement);
  if (call !== null) return `${call[0].replace(/\s*\($/, '')}() reads outside the table and is not allowed`;
  // `FROM 'file.parquet'` reads a file: the literal's place is taken by a mark.
  return /\b(?:from|join)\s*\(?\s*''/i.test(statement) ? 'a file cannot be read; use {object}' : null;
}

/** The query with comments as blanks, strings as '' and quoted names as "q": null when one is not closed. */
function withoutLiterals(query: string): string | null {
  let out = '';
  let at = 0;
  while (at < query.length) {
    const two = query.slice(at, at + 2);
    const char = query.charAt(at);
    if (two === '--') {
      const end = query.indexOf('\n', at);
      at = end < 0 ? query.length : end;
      out += ' ';
    } else if (two === '/*') {
      const end = query.indexOf('*/', at + 2);
      if (end < 0) return null;
      at = end + 2;
      out += ' ';
    } else if (char === "'" || char === '"') {
      let end = query.indexOf(char, at + 1);
      while (end >= 0 && query.charAt(end + 1) === char) end = query.indexOf(char, end + 2);
      if (end < 0) return null;
      out += char === "'" ? "''" : '"q"';
      at = end + 1;
    } else {
      out += char;
      at++;
    }
  }
  return out;
}

/** `{object}`, `{property}` and the older `${table}`, `${column}` → quoted names. */
export function fillPlaceholders(query: string, object: string, property: string | null): string {
  const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
  return query
    .replaceAll(/\$\{(?:table|object)\}|\{(?:object|table)\}/g, () => object)
    .replaceAll(/\$\{(?:column|property)\}|\{(?:property|column)\}/g, () =>
      property === null ? '' : quoted(property),
    );
}
