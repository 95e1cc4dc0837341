import type { IndexErrorCode } from '../../lakehouse/index/index-error.ts';
import type { KeyTypeError } from '../../lakehouse/index/key-hash.ts';
import type { MergeErrorCode } from '../../lakehouse/merge/merge-error.ts';
import type { ParquetErrorCode } from '../../lakehouse/parquet/parquet-error.ts';
import type { SqlErrorCode } from '../../lakehouse/read/sql-error.ts';
import type { StoreErrorCode } from '../../lakehouse/store/store.ts';
import type { TableErrorCode } from '../../lakehouse/table/table-error.ts';
import type { CommandErrorCode } from '../../contracts/cli/exit-code.ts';
import type { ViolationCode } from '../../contracts/engine/gate.ts';
import type { ContractErrorCode } from '../../contracts/engine/parse.ts';
import type { PrivacyErrorCode } from '../../contracts/engine/privacy.ts';
import type { TypeMappingError } from '../../contracts/engine/type-table.ts';
import type { RunnerState } from '../ingest/table-runner.ts';
import type { DecodeErrorCode } from '../log/decode-error.ts';
import type { EncodeError } from '../log/envelope-encode.ts';
import type { LogErrorCode } from '../log/log.ts';
import type { SourceBreak, TableBreak } from '../reader/continuity.ts';
import type { ReaderErrorCode } from '../reader/reader-error.ts';
import { CODES, codeOf } from '../runtime/codes.ts';
import type { CodeEntry } from '../runtime/codes/code-entry.ts';
import { ExitCode } from '../runtime/errors.ts';

/** Every word that a part can throw or show. */
type KnownWord =
  | StoreErrorCode
  | TableErrorCode
  | MergeErrorCode
  | IndexErrorCode
  | KeyTypeError['code']
  | ParquetErrorCode
  | SqlErrorCode
  | ContractErrorCode
  | CommandErrorCode
  | PrivacyErrorCode
  | TypeMappingError['code']
  | ViolationCode
  | LogErrorCode
  | DecodeErrorCode
  | EncodeError['code']
  | ReaderErrorCode
  | SourceBreak
  | TableBreak
  | RunnerState;

/** A new word in one of the unions does not compile until the table has it. */
export const EVERY_WORD_HAS_A_CODE = CODES satisfies Readonly<Record<KnownWord, CodeEntry>>;

export interface Failure {
  /** `SLU-nnnn`; null = an error that has none. */
  readonly code: string | null;
  readonly message: string;
  readonly remedy: string;
  readonly exit: ExitCode;
}

/** What to print for any error, and how to exit: by the first error of its chain of causes that has a code. */
export function explainFailure(error: unknown): Failure {
  if (!(error instanceof Error)) return { code: null, message: String(error), remedy: '', exit: ExitCode.findings };
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const { remedy, exit } = cause as { remedy?: unknown; exit?: unknown };
    const word = wordOf(cause);
    const entry = word === null ? null : (codeOf(word)?.entry ?? null);
    const says = typeof remedy === 'string' && remedy !== '' ? remedy : null;
    if (entry === null && !(says !== null && isExit(exit))) continue;
    return {
      code: entry?.code ?? null,
      message: error.message || (word ?? error.name),
      remedy: says ?? entry?.remedy ?? '',
      exit: isExit(exit) ? exit : (entry?.exit ?? ExitCode.findings),
    };
  }
  return {
    code: null,
    message: error.message || error.name,
    remedy: 'set SLUICE_DEBUG=1 for the stack',
    exit: ExitCode.findings,
  };
}

/** The state's name, of the first error in the chain that has one. */
export function stateOf(error: unknown): string {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const word = wordOf(cause);
    if (word !== null && codeOf(word) !== null) return word;
  }
  return 'STOPPED';
}

/** A break of continuity is known by its state, any other error by its code. */
function wordOf(error: Error): string | null {
  const { code, broken } = error as { code?: unknown; broken?: { readonly state?: unknown } };
  if (typeof broken?.state === 'string') return broken.state;
  return typeof code === 'string' ? code : null;
}

function isExit(value: unknown): value is ExitCode {
  return typeof value === 'number' && value >= 0 && value <= 4;
}
