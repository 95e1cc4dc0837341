/** What `contracts check` was asked for, and the mode that follows from it for a contract. */
import { DEFAULT_MODE } from '../engine/compat/assess.ts';
import type { CompatibilityMode, Contract, TableContract } from '../engine/model.ts';
import type { FailOn } from './report/report.ts';
import type { Format } from './report/write-report.ts';
import { settingFor } from './settings.ts';
import type { Settings } from './settings.ts';

export interface CheckOptions {
  readonly paths: readonly string[];
  readonly against: string | null;
  readonly mode: CompatibilityMode | null;
  readonly strict: boolean;
  readonly failOn: FailOn;
  readonly format: Format;
  readonly output: string | null;
  readonly table: string | null;
  readonly allVersions: boolean;
  readonly source: string | null;
  readonly lake: string | null;
  /** `7d` */
  readonly data: string | null;
  /** `sluice.yaml` of the log whose events `data` is about; null = the lake's rows. */
  readonly config: string | null;
  readonly quiet: boolean;
}

/** The argument, else the contract's own, else the settings', else the default. */
export function modeOf(contract: Contract, options: CheckOptions, settings: Settings): CompatibilityMode {
  const own = contract.tables.find((table) => table.compatibility !== null)?.compatibility ?? null;
  return spread(options.mode ?? own ?? settingFor(settings.modes, contract) ?? DEFAULT_MODE, options);
}

/** The same of one table of the contract; one that says nothing does not take its neighbour's. */
export function tableModeOf(
  contract: Contract,
  table: TableContract,
  options: CheckOptions,
  settings: Settings,
): CompatibilityMode {
  return spread(options.mode ?? table.compatibility ?? settingFor(settings.modes, contract) ?? DEFAULT_MODE, options);
}

function spread(mode: CompatibilityMode, { allVersions }: CheckOptions): CompatibilityMode {
  if (!allVersions || mode === 'NONE' || mode.endsWith('_TRANSITIVE')) return mode;
  return `${mode as 'BACKWARD' | 'FORWARD' | 'FULL'}_TRANSITIVE`;
}
