/** PORT: all that the `contracts` command needs of the world. `services/cli/contracts/main.ts` wires the real parts. */
import type { CatalogTable } from '../engine/catalog.ts';
import type { GateRow } from '../engine/gate.ts';
import type { DeltaFieldLike } from '../engine/infer-delta.ts';
import type { TableProbe } from '../engine/rules/table-probe.ts';

export interface Ports {
  /** Absolute. Paths that the command shows are relative to it. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly files: FilePort;
  readonly git: GitPort;
  /** `SLU-7006`, as `sluice explain` knows the error; null: it has no number. */
  readonly numberOf?: (code: string) => string | null;
  /** Microseconds since 1970 UTC. */
  readonly nowMicros: () => bigint;
  /** @throws CommandError SOURCE_UNREADABLE */
  readonly catalog: (url: string) => Promise<CatalogSession>;
  /** @throws CommandError LAKE_UNREADABLE */
  readonly lake: (uri: string) => Promise<LakeSession>;
  /** The log that a `sluice.yaml` names (null = ./sluice.yaml). @throws CommandError LOG_UNREADABLE */
  readonly stream: (config: string | null) => Promise<StreamSession>;
}

export interface FilePort {
  /** Null: nothing there. Paths are absolute. */
  kind(path: string): 'file' | 'folder' | null;
  read(path: string): string;
  /** All files below a folder, as paths relative to it with `/`, sorted. */
  list(folder: string): readonly string[];
  /** Makes the folders above it. */
  write(path: string, text: string): void;
}

export interface GitResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
/** Runs git in a folder. Resolves whatever the exit code is; 127 when there is no git. */
export type GitPort = (args: readonly string[], folder: string) => Promise<GitResult>;

export interface CatalogSession {
  tables(): Promise<readonly CatalogTable[]>;
  /** `sinceMicros` is ignored where the table does not say when a row was written. */
  probe(table: CatalogTable): TableProbe;
  close(): Promise<void>;
}

export interface LakeSession {
  /** Null: the lake has no such table. Both names as the source has them. */
  table(schema: string, table: string): Promise<LakeTable | null>;
}

export interface LakeTable {
  /** URI, for messages. */
  readonly place: string;
  readonly version: bigint;
  readonly fields: readonly DeltaFieldLike[];
  /** Key columns in order, by the source's names; none where the lake does not know them. */
  keys(): Promise<readonly string[]>;
  /** Rows committed at the source since then (null = all), in the gate's cell forms, by the source's column names. */
  rows(columns: readonly string[], sinceMicros: bigint | null): AsyncIterable<readonly GateRow[]>;
  probe(sinceMicros: bigint | null): TableProbe;
}

export interface StreamSession {
  /** Newest events of a table that carry a row, oldest first; null: there is no such topic. */
  sample(
    schema: string,
    table: string,
    window: { readonly sinceMicros: bigint | null; readonly rowsMax: number },
  ): Promise<StreamSample | null>;
  close(): Promise<void>;
}

export interface StreamSample {
  readonly topic: string;
  /** Key columns in order. */
  readonly keys: readonly string[];
  readonly rows: readonly GateRow[];
}
