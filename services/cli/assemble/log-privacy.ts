/** What the contracts keep out of the log, as the reader asks for it. */
import { selectTable } from '../../../contracts/engine/compile.ts';
import { lintContract } from '../../../contracts/engine/lint.ts';
import { createHasher, keyIdOf } from '../../../contracts/engine/privacy.ts';
import type { ContractFiles } from '../../ingest/contract-files.ts';
import type { AskedPrivacy, LogPrivacy } from '../../reader/table-privacy.ts';
import type { Config } from '../../runtime/config.ts';

/** The key's bytes; null when none is configured. */
export function piiKey(config: Config): Uint8Array | null {
  return config.privacy.key === null ? null : Buffer.from(config.privacy.key);
}

export function logPrivacy(contracts: ContractFiles, key: Uint8Array | null): LogPrivacy {
  // Looked at every second: a text that is as it was is not parsed again.
  const known = new Map<string, { readonly text: string; readonly asked: AskedPrivacy }>();
  return {
    hasher: key === null ? null : createHasher(key),
    keyId: key === null ? null : keyIdOf(key),
    async ask(schema, table) {
      const found = await contracts.load(schema, table);
      if (found === null) return { kind: 'none' };
      const label = `${schema}.${table}`;
      const before = known.get(label);
      if (before?.text === found.text) return before.asked;
      const asked = askedOf(found.text, found.file, { schema, table });
      known.set(label, { text: found.text, asked });
      return asked;
    },
  };
}

function askedOf(text: string, file: string, live: { readonly schema: string; readonly table: string }): AskedPrivacy {
  const { contract, findings } = lintContract(text, file);
  if (contract === null) {
    const first = findings.find(({ level }) => level === 'error');
    return {
      kind: 'unreadable',
      detail: first === undefined ? file : `${first.file}:${first.line}:${first.column}: ${first.message}`,
    };
  }
  const { columns } = selectTable(contract, live);
  return {
    kind: 'asked',
    actions: new Map(
      columns.flatMap(({ name, piiAction, piiStage }) =>
        piiAction !== null && piiStage === 'before-log' ? [[name, piiAction] as const] : [],
      ),
    ),
  };
}
