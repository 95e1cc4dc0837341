/**
 * The frame of a catalogue page: one file that loads nothing from elsewhere. A policy in its head forbids everything but
 * its own style and the one script of the list's search, so that text of a contract could do nothing even if it got through.
 */
import { createHash } from 'node:crypto';

const STYLE = `
:root{color-scheme:light dark;--line:#8883;--soft:#8881;--dim:#777;--link:#0a58ca;--warn:#b02a37;--key:#7a5b00}
@media (prefers-color-scheme:dark){:root{--dim:#aaa;--link:#8ab4f8;--warn:#ff8a8a;--key:#e3c15c}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1rem 1.25rem 4rem}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
h1{font-size:1.6rem;margin:.4rem 0;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}
nav{font-size:.9rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem;border-bottom:1px solid var(--line);padding-bottom:.5rem}
p,dd,li{overflow-wrap:anywhere}small,.dim{color:var(--dim)}
code{font:.86em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
pre{margin:.2rem 0;white-space:pre-wrap}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.4rem .6rem;text-align:left;vertical-align:top}
th{font-weight:600;white-space:nowrap;font-size:.85rem;color:var(--dim)}
tr:target{background:var(--soft);outline:2px solid var(--link)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:1rem 0}dt{color:var(--dim)}dd{margin:0}
.lineage{display:flex;flex-wrap:wrap;gap:.6rem;list-style:none;padding:0;align-items:stretch}
.lineage li{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .8rem;background:var(--soft);flex:1 1 14rem}
.lineage li:not(:last-child)::after{content:"\\2192";float:right;color:var(--dim)}
.tag{display:inline-block;border:1px solid var(--line);border-radius:1rem;padding:0 .5rem;font-size:.78rem;margin:0 .25rem .15rem 0;white-space:nowrap}
.key{color:var(--key);border-color:currentColor}.private{color:var(--warn);border-color:currentColor}
.note{display:block}
#search{width:100%;font:inherit;padding:.5rem .8rem;margin:.6rem 0;border:1px solid var(--line);border-radius:.5rem;background:none;color:inherit}
@media (max-width:44rem){
thead{display:none}tr{display:block;border:1px solid var(--line);border-radius:.5rem;margin:.6rem 0;padding:.3rem .2rem}
td{display:block;border:0;padding:.15rem .6rem}td:empty{display:none}
td[data-label]:not(:first-child)::before{content:attr(data-label) " ";color:var(--dim);font-size:.8rem}
td.under{padding-left:1.4rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}.lineage li:not(:last-child)::after{content:"\\2193"}}
@media print{nav,#search{display:none}}
`;

/** Filters the list by words that a table's names, columns and descriptions hold. Without it the whole list stands there. */
const SEARCH = `
const box=document.getElementById('search'),rows=[...document.querySelectorAll('tr[data-find]')],count=document.getElementById('count');
const filter=()=>{const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);let shown=0;
for(const row of rows){const text=row.dataset.find,hit=words.every((word)=>text.includes(word));row.hidden=!hit;if(hit)shown++}
count.textContent=words.length===0?'':shown+' of '+rows.length};
box.hidden=false;box.addEventListener('input',filter);filter();
`;
const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

export interface Page {
  readonly title: string;
  readonly body: string;
  readonly search: boolean;
}

export function htmlPage({ title, body, search }: Page): string {
  const script = search ? `; script-src ${hashOf(SEARCH)}` : '';
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ${hashOf(STYLE)}${script}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${escapeHtml(title)}</title><style>${STYLE}</style></head>
<body>
${body}
${search ? `<script>${SEARCH}</script>\n` : ''}</body>
</html>
`;
}

export interface Row {
  readonly cells: readonly string[];
  /** For links to it. */
  readonly id?: string;
  /** What the search looks in. */
  readonly find?: string;
  /** How deep it stands inside another. */
  readonly depth?: number;
}

/** `cells` and `head` are HTML. On a narrow screen each row is a card, and a cell says what it is. */
export function htmlTable(head: readonly string[], rows: readonly Row[]): string {
  const body = rows.map(({ cells, id, find, depth = 0 }) => {
    const attributes = [
      id === undefined ? '' : ` id="${escapeHtml(id)}"`,
      find === undefined ? '' : ` data-find="${escapeHtml(find.toLowerCase())}"`,
    ].join('');
    const inner = cells.map(
      (cell, index) =>
        `<td data-label="${escapeHtml(head[index] ?? '')}"${depth > 0 && index === 0 ? ' class="under"' : ''}>${cell}</td>`,
    );
    return `<tr${attributes}>${inner.join('')}</tr>`;
  });
  const labels = head.map((cell) => `<th scope="col">${escapeHtml(cell)}</th>`).join('');
  return `<table>\n<thead><tr>${labels}</tr></thead>\n<tbody>\n${body.join('\n')}\n</tbody>\n</table>`;
}

/** Characters that turn the direction of text would show a name as another. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
    .replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}
