import type { ExitCode } from '../errors.ts';

/** What one code means, the same for every error or state that carries it. */
export interface CodeEntry {
  /** `SLU-nnnn`, also the name of the page in docs/codes. */
  readonly code: `SLU-${number}`;
  /** One phrase: what is the case. */
  readonly title: string;
  /** How a command ends that meets it. An error that brings its own exit code keeps that. */
  readonly exit: ExitCode;
  /** A later attempt may succeed with nothing changed by a person. */
  readonly retry: boolean;
  /** One line: what to do. An error that brings its own remedy, with the SQL or the name, keeps that. */
  readonly remedy: string;
}
