/**
 * `source.tables`: globs on schema.table. `*` stands for any characters, `?` for one, `!` before a glob leaves out what it
 * matches, and a backslash takes its meaning from the character behind it: PostgreSQL allows all of them in names. Pure.
 */

/** The last glob that matches decides. */
export function matchesGlobs(globs: readonly string[], schema: string, table: string): boolean {
  const name = `${schema}.${table}`;
  let included = false;
  for (const glob of globs) {
    const out = glob.startsWith('!');
    if (globPattern(out ? glob.slice(1) : glob).test(name)) included = !out;
  }
  return included;
}

/** The glob that matches this table and no other. */
export function exactGlob({ schema, table }: { readonly schema: string; readonly table: string }): string {
  return escapeGlob(`${schema}.${table}`);
}

/** What to write to follow every other table. */
export function leaveOut(table: { readonly schema: string; readonly table: string }): string {
  return `source.tables: [${JSON.stringify(`!${exactGlob(table)}`)}]`;
}

/** The glob that matches every table of the schema. */
export function schemaGlob(schema: string): string {
  return `${escapeGlob(schema)}.*`;
}

/** Whether it can match one table only. */
export function isExact(glob: string): boolean {
  return !/[*?]/.test(glob.replace(/\\./gs, ''));
}

function escapeGlob(name: string): string {
  return name.replace(/[*?\\]|^!/g, '\\$&');
}

function globPattern(glob: string): RegExp {
  const body = glob.replace(/\\?./gs, (token) => {
    if (token === '*') return '.*';
    if (token === '?') return '.';
    const literal = token.length > 1 ? token.slice(1) : token;
    return literal.replace(/[.+*?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${body}$`, 's');
}
