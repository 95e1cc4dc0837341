/** Changes → findings: the level under the table's mode, the approvals that the contract records, and the version gate. */
import type { Finding, FindingLevel } from '../finding.ts';
import { sortFindings } from '../finding.ts';
import type { BreakingNote, CompatibilityMode, Contract, TableContract } from '../model.ts';
import { CHANGES, levelOf, type Change, type ChangeKind } from './change.ts';
import { compareContracts, compareTables } from './compare-contracts.ts';
import { bumpBetween, parseVersion, requiredVersion, versionFell, type Bump } from './version.ts';

export const DEFAULT_MODE: CompatibilityMode = 'FORWARD_TRANSITIVE';

export interface AssessOptions {
  /** Overrides the contract's own. */
  readonly mode: CompatibilityMode | null;
  /** Of one table, where the contract has several; absent: `mode` holds for all. */
  readonly tableMode?: (table: TableContract) => CompatibilityMode;
  readonly strict: boolean;
  /** `YYYY-MM-DD`, to tell which approvals have ended. */
  readonly today: string;
  /** Tables that stood in other contracts of the base, and are looked at as if they had always stood here. */
  readonly moved?: readonly MovedTable[];
}

export interface MovedTable {
  readonly from: TableContract;
  readonly to: TableContract;
  /** Where it stood: `shop.public.orders in 3f2c9d1`. */
  readonly label: string;
}

/** A version of the contract that readers or stored rows may be of. */
export interface Base {
  /** `3f2c9d1`, a tag, or a folder's name. */
  readonly label: string;
  readonly contract: Contract;
}

export interface Assessment {
  readonly mode: CompatibilityMode;
  readonly changes: readonly Change[];
  readonly findings: readonly Finding[];
  /** The change asks at least for this. */
  readonly bump: Bump;
}

/**
 * `bases[0]` is the one that the version gate compares with; the others are released versions, which only transitive
 * modes look at, and only those of the same major: an older major was broken on purpose.
 */
export function assess(head: Contract, bases: readonly Base[], options: AssessOptions): Assessment {
  const mode = options.mode ?? head.tables.find((table) => table.compatibility !== null)?.compatibility ?? DEFAULT_MODE;
  const first = bases[0] ?? null;
  const moved = options.moved ?? [];
  if (first === null && moved.length === 0) return { mode, changes: [], findings: [], bump: 'none' };
  const changes = [
    ...(first === null ? [] : compareContracts(first.contract, head)).filter(
      ({ code, subject }) => code !== 'TABLE_ADDED' || !moved.some(({ to }) => to.name === subject),
    ),
    ...moved.flatMap(movedChanges),
  ];
  const own = new Set(changes);
  const known = new Set(changes.map((change) => `${change.code}|${change.subject}`));
  const { tableMode } = options;
  const modeFor: ModeFor = (change) => {
    const table = tableMode === undefined ? null : tableOf(change, head, first?.contract ?? head);
    return table === null || tableMode === undefined ? mode : tableMode(table);
  };
  if (
    first !== null &&
    (mode.endsWith('_TRANSITIVE') || head.tables.some((table) => tableMode?.(table).endsWith('_TRANSITIVE')))
  ) {
    const major = parseVersion(first.contract.version)?.major;
    for (const base of bases.slice(1)) {
      if (parseVersion(base.contract.version)?.major !== major) continue;
      for (const change of compareContracts(base.contract, head)) {
        const key = `${change.code}|${change.subject}`;
        const breaks = ['backward', 'forward'].some(
          (side) => (CHANGES[change.code] as ChangeKind)[side as 'backward' | 'forward'] === 'breaks',
        );
        if (!breaks || known.has(key) || !modeFor(change).endsWith('_TRANSITIVE')) continue;
        known.add(key);
        changes.push({ ...change, message: `${change.message} (against ${base.contract.version}, ${base.label})` });
      }
    }
  }
  return gate(head, first, changes, { ...options, mode, modeFor, own });
}

/** Where it is described now is no change of the table. */
const movedChanges = ({ from, to, label }: MovedTable): Change[] =>
  compareTables(from, to)
    .filter(({ code }) => code !== 'LOCATION_CHANGED')
    .map((change) => ({ ...change, message: `${change.message} (against ${label})` }));

type ModeFor = (change: Change) => CompatibilityMode;

interface GateOptions extends AssessOptions {
  readonly mode: CompatibilityMode;
  readonly modeFor: ModeFor;
  /** Changes since the base; the others were released before, and only what breaks asks for a number again. */
  readonly own: ReadonlySet<Change>;
}

/** Null: the change is of the contract as a whole. */
function tableOf({ path, subject }: Change, head: Contract, base: Contract): TableContract | null {
  const [root, index] = path;
  if (root === 'schema' && typeof index === 'number') return head.tables[index] ?? null;
  const named = ({ name }: TableContract): boolean => subject === name || subject.startsWith(`${name}.`);
  return head.tables.find(named) ?? base.tables.find(named) ?? null;
}

/** @param base null: the contract is new, its number says nothing yet, and a note alone approves a break */
function gate(head: Contract, base: Base | null, changes: readonly Change[], options: GateOptions): Assessment {
  const { mode, modeFor } = options;
  const bump = requiredBump(changes, options);
  const before = base?.contract.version ?? null;
  const given = before === null ? 'major' : bumpBetween(before, head.version);
  const findings = changes.map((change) => {
    let level = levelOf(change, modeFor(change), options.strict);
    const note = level === 'error' ? approvalOf(change, head.breaking) : null;
    let hint: string | null = null;
    if (note !== null && ended(note, options.today)) hint = `its approval ended on ${note.until ?? ''}`;
    else if (note !== null && (given === 'major' || change.code === 'PII_DOWNGRADE')) {
      level = 'warning';
      hint = `approved by ${note.approver}: ${note.reason}`;
    } else if (level === 'error' && given === 'major')
      hint = `a break needs a note: customProperty breaking {code: ${change.code}, reason, approver, until}`;
    return finding(head, level, change.code, change.subject, change.message, change.path, hint);
  });
  if (before !== null && order(given) < order(bump)) {
    const wanted = requiredVersion(before, bump);
    const text = `${before} -> ${head.version}: these changes need ${wanted ?? `a ${bump} version`}`;
    findings.push(finding(head, 'error', 'VERSION_TOO_SMALL', head.version, text, ['version'], null));
  } else if (before !== null && versionFell(before, head.version)) {
    const text = `${before} -> ${head.version}: the version went back`;
    findings.push(finding(head, 'error', 'VERSION_TOO_SMALL', head.version, text, ['version'], null));
  }
  return { mode, changes, findings: sortFindings(findings), bump };
}

function requiredBump(changes: readonly Change[], { modeFor, strict, own }: GateOptions): Bump {
  let bump: Bump = 'none';
  for (const change of changes) {
    const kind: ChangeKind = CHANGES[change.code];
    const level = levelOf(change, modeFor(change), strict);
    if (level !== 'error' && !own.has(change)) continue;
    const asked: Bump =
      kind.bump === 'patch' ? 'patch' : level === 'error' && kind.bump !== 'minor' ? 'major' : 'minor';
    if (order(asked) > order(bump)) bump = asked;
  }
  return bump;
}

const order = (bump: Bump): number => ['none', 'patch', 'minor', 'major'].indexOf(bump);

function approvalOf(change: Change, notes: readonly BreakingNote[]): BreakingNote | null {
  return (
    notes.find((note) => note.code === change.code && (note.subject === null || note.subject === change.subject)) ??
    null
  );
}

const ended = (note: BreakingNote, today: string): boolean => note.until !== null && note.until < today;

function finding(
  head: Contract,
  level: FindingLevel,
  code: string,
  subject: string,
  message: string,
  path: Change['path'],
  hint: string | null,
): Finding {
  const at = head.source.locate(path);
  return { level, code, subject, message, hint, file: head.source.file, line: at.line, column: at.column };
}

/** A contract file that stood in the base and is gone. */
export function tableRemoved(base: Base, file: string, options: AssessOptions, hint: string | null = null): Finding {
  const mode = options.mode ?? base.contract.tables[0]?.compatibility ?? DEFAULT_MODE;
  const name = base.contract.tables[0]?.name ?? base.contract.id;
  const change: Change = {
    code: 'TABLE_REMOVED',
    subject: name,
    message: `its contract stood in ${base.label} and is gone`,
    path: [],
  };
  return {
    level: levelOf(change, mode, options.strict),
    code: change.code,
    subject: name,
    message: change.message,
    hint,
    file,
    line: 1,
    column: 1,
  };
}
