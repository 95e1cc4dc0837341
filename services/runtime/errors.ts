/**
 * Errors that a person meets. `code` names the failure, `exit` is the process's exit code (DESIGN section 2), `remedy`
 * says in one line what to do. Never row data or secrets in any of them.
 */
export const ExitCode = {
  clean: 0,
  /** Findings, or work that failed. */
  findings: 1,
  /** Bad usage or configuration. */
  usage: 2,
  /** Database, broker, store or git ref not reachable: a retry may cure it. */
  environment: 3,
  /** Stopped by a named state: a retry will not help. */
  namedState: 4,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

export class SluiceError extends Error {
  readonly code: string;
  readonly exit: ExitCode;
  readonly remedy: string;
  constructor(
    code: string,
    message: string,
    options: { readonly exit: ExitCode; readonly remedy: string; readonly cause?: unknown },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SluiceError';
    this.code = code;
    this.exit = options.exit;
    this.remedy = options.remedy;
  }
}

export class ConfigError extends SluiceError {
  constructor(message: string, remedy: string, cause?: unknown) {
    super('CONFIG', message, { exit: ExitCode.usage, remedy, cause });
    this.name = 'ConfigError';
  }
}
