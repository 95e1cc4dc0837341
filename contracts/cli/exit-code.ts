/** How the `contracts` command ends, and the error that ends it early. */
export const EXIT = {
  /** Nothing found; warnings are allowed unless `--fail-on warning`. */
  clean: 0,
  findings: 1,
  /** Bad usage, or a contract that cannot be read or is not valid. */
  usage: 2,
  /** A git ref is absent; a database, an object store or a log does not answer. */
  environment: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export type CommandErrorCode =
  | 'USAGE'
  | 'PATH_MISSING'
  | 'NO_CONTRACTS'
  | 'CONTRACT_INVALID'
  | 'SETTINGS_INVALID'
  | 'GIT_REF_MISSING'
  | 'GIT_HISTORY_MISSING'
  | 'GIT_FAILED'
  | 'SOURCE_UNREADABLE'
  | 'LAKE_UNREADABLE'
  | 'LOG_UNREADABLE'
  | 'LOSSY';

/** `message` says what and where, `remedy` what to do next; neither holds row data or credentials. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;
  readonly exit: ExitCode;
  readonly remedy: string;
  constructor(code: CommandErrorCode, exit: ExitCode, message: string, remedy: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'CommandError';
    this.code = code;
    this.exit = exit;
    this.remedy = remedy;
  }
}

export function usageError(message: string, remedy: string): CommandError {
  return new CommandError('USAGE', EXIT.usage, message, remedy);
}
