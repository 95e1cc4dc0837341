/** One finding of `sluice doctor`, and how a check that fails becomes one. */
import { withoutCredentials } from '../../runtime/logger.ts';
import { explainFailure } from '../explain-failure.ts';

export interface CheckResult {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly detail: string;
  /** What to do, with the SQL where there is one; empty when ok. */
  readonly fix: string;
}

export type Report = (result: CheckResult) => void;

export const ok = (name: string, detail: string): CheckResult => ({ name, status: 'ok', detail, fix: '' });
export const bad = (name: string, detail: string, fix: string): CheckResult => ({ name, status: 'error', detail, fix });
export const warn = (name: string, detail: string, fix: string): CheckResult => ({
  name,
  status: 'warning',
  detail,
  fix,
});

export async function attempt<T>(name: string, report: Report, action: () => Promise<T>): Promise<T | null> {
  try {
    return await action();
  } catch (error) {
    const failure = explainFailure(error);
    report(bad(name, withoutCredentials(failure.message), failure.remedy));
    return null;
  }
}
