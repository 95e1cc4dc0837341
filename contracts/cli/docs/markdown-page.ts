/** The same catalogue in Markdown, for a repository's own pages. */
import { exportMarkdown } from '../../engine/export/markdown.ts';
import type { CatalogueEntry, VersionEntry } from './catalogue.ts';

export function tableMarkdown(entry: CatalogueEntry): string {
  const lineage = entry.lineage.map(({ stage, name }) => `${stage} \`${name}\``).join(' → ');
  const log = entry.versions.map(versionText).join('\n\n');
  return `${exportMarkdown(entry.contract, entry.table).text}\n## Lineage\n\n${lineage}\n\n## Change log\n\n${log}\n`;
}

export function indexMarkdown(entries: readonly CatalogueEntry[]): string {
  const rows = entries.map(
    ({ contract, page, owner }) =>
      `| [${escape(page)}](${encodeURIComponent(`${page}.md`)}) | ${escape(contract.version)} | ${escape(contract.status)} | ${escape(owner ?? '')} |`,
  );
  return `# Data contracts\n\n| Table | Version | Status | Owner |\n| --- | --- | --- | --- |\n${rows.join('\n')}\n`;
}

function versionText({ version, label, changes }: VersionEntry): string {
  const head = `### ${escape(version)}${label === null ? '' : ` (${escape(label)})`}`;
  if (changes === null) return `${head}\n\nfirst version`;
  if (changes.length === 0) return `${head}\n\nno change to the data`;
  const items = changes.map(({ code, subject, message }) => `- \`${code}\` ${escape(subject)}: ${escape(message)}`);
  return `${head}\n\n${items.join('\n')}`;
}

function escape(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|')
    .replaceAll('<', '&lt;')
    .replaceAll(/\s*\n\s*/g, ' ');
}
