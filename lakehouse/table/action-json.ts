/** Commit files: newline-separated JSON actions to `CommitActions` and back. */
import type {
  AddFile,
  CdcFile,
  CommitActions,
  CommitInfo,
  DomainMetadataAction,
  MetadataAction,
  PartitionValues,
  ProtocolAction,
  RemoveFile,
  TxnAction,
} from './actions.ts';
import type { DeletionVectorDescriptor } from './deletion-vector-descriptor.ts';
import { parseLossless, stringifyLossless } from './lossless-json.ts';

type Json = Readonly<Record<string, unknown>>;

/** Takes what a commit (or a JSON checkpoint) says, action by action, so that no whole file of objects is held. */
export interface ActionVisitor {
  commitInfo?(info: CommitInfo): void;
  protocol?(action: ProtocolAction): void;
  metadata?(action: MetadataAction): void;
  txn?(action: TxnAction): void;
  domain?(action: DomainMetadataAction): void;
  add?(action: AddFile): void;
  remove?(action: RemoveFile): void;
  cdc?(action: CdcFile): void;
  sidecar?(action: { readonly path: string }): void;
}

const LF = 0x0a;
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads the actions of `body` in order.
 * @throws SyntaxError | TypeError naming the line, never its content
 */
export function visitActions(body: Uint8Array, visitor: ActionVisitor): void {
  let line = 1;
  for (let start = 0; start < body.length; line++) {
    const found = body.indexOf(LF, start);
    const end = found < 0 ? body.length : found;
    const text = decodeLine(body.subarray(start, end), line);
    if (text.trim() !== '') {
      try {
        visitAction(object(parseLossless(text), 'an action'), visitor);
      } catch (error) {
        throw new SyntaxError(`line ${line}: ${error instanceof Error ? error.message : 'unreadable'}`, {
          cause: error,
        });
      }
    }
    start = end + 1;
  }
}

function decodeLine(bytes: Uint8Array, line: number): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new SyntaxError(`line ${line} is not UTF-8`, { cause: error });
  }
}

function visitAction(action: Json, visitor: ActionVisitor): void {
  for (const [name, value] of Object.entries(action)) {
    if (value === null) continue;
    switch (name) {
      case 'add':
        visitor.add?.(readAdd(object(value, name)));
        break;
      case 'remove':
        visitor.remove?.(readRemove(object(value, name)));
        break;
      case 'metaData':
        visitor.metadata?.(readMetadata(object(value, name)));
        break;
      case 'protocol':
        visitor.protocol?.(readProtocol(object(value, name)));
        break;
      case 'txn':
        visitor.txn?.(readTxn(object(value, name)));
        break;
      case 'domainMetadata':
        visitor.domain?.(readDomain(object(value, name)));
        break;
      case 'commitInfo':
        visitor.commitInfo?.(object(value, name));
        break;
      case 'cdc':
        visitor.cdc?.(readCdc(object(value, name)));
        break;
      case 'sidecar':
        visitor.sidecar?.({ path: text(object(value, name)['path'], 'sidecar.path') });
        break;
      default:
        break;
    }
  }
}

/** @throws SyntaxError naming the line */
export function parseCommit(body: Uint8Array): CommitActions {
  const txns: TxnAction[] = [];
  const domains: DomainMetadataAction[] = [];
  const removes: RemoveFile[] = [];
  const adds: AddFile[] = [];
  const cdcs: CdcFile[] = [];
  let commitInfo: CommitInfo | null = null;
  let protocol: ProtocolAction | null = null;
  let metadata: MetadataAction | null = null;
  visitActions(body, {
    commitInfo: (info) => (commitInfo = info),
    protocol: (action) => (protocol = action),
    metadata: (action) => (metadata = action),
    txn: (action) => txns.push(action),
    domain: (action) => domains.push(action),
    add: (action) => adds.push(action),
    remove: (action) => removes.push(action),
    cdc: (action) => cdcs.push(action),
  });
  return { commitInfo, protocol, metadata, txns, domains, removes, adds, cdcs };
}

/** Shows the actions of a parsed commit to a visitor. */
export function visitCommit(commit: CommitActions, visitor: ActionVisitor): void {
  if (commit.commitInfo !== null) visitor.commitInfo?.(commit.commitInfo);
  if (commit.protocol !== null) visitor.protocol?.(commit.protocol);
  if (commit.metadata !== null) visitor.metadata?.(commit.metadata);
  for (const txn of commit.txns) visitor.txn?.(txn);
  for (const domain of commit.domains) visitor.domain?.(domain);
  for (const remove of commit.removes) visitor.remove?.(remove);
  for (const add of commit.adds) visitor.add?.(add);
  for (const cdc of commit.cdcs) visitor.cdc?.(cdc);
}

/** The commit's bytes: commitInfo first, one action a line, final newline. */
export function serializeCommit(actions: CommitActions): Uint8Array {
  const lines: string[] = [];
  const push = (name: string, value: Json): void => {
    lines.push(stringifyLossless({ [name]: value }), '\n');
  };
  if (actions.commitInfo !== null) push('commitInfo', actions.commitInfo);
  if (actions.protocol !== null) push('protocol', protocolJson(actions.protocol));
  if (actions.metadata !== null) push('metaData', present({ ...actions.metadata }));
  for (const txn of actions.txns) push('txn', present({ ...txn }));
  for (const domain of actions.domains) push('domainMetadata', { ...domain });
  for (const remove of actions.removes) push('remove', fileJson(remove));
  for (const add of actions.adds) push('add', fileJson(add));
  for (const cdc of actions.cdcs) push('cdc', { ...present({ ...cdc }), dataChange: false });
  return new TextEncoder().encode(lines.join(''));
}

function protocolJson(protocol: ProtocolAction): Json {
  return present({ ...protocol });
}

function fileJson(file: AddFile | RemoveFile): Json {
  return present({
    ...file,
    deletionVector: file.deletionVector === null ? null : present({ ...file.deletionVector }),
  });
}

/** Without the members that are null: an absent optional field is written as absent. */
function present(value: Json): Json {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
}

export function readProtocol(json: Json): ProtocolAction {
  return {
    minReaderVersion: smallInteger(json['minReaderVersion'], 'minReaderVersion'),
    minWriterVersion: smallInteger(json['minWriterVersion'], 'minWriterVersion'),
    readerFeatures: json['readerFeatures'] == null ? null : texts(json['readerFeatures'], 'readerFeatures'),
    writerFeatures: json['writerFeatures'] == null ? null : texts(json['writerFeatures'], 'writerFeatures'),
  };
}

/** Schema of a table whose metadata names none. */
export const NO_COLUMNS = '{"type":"struct","fields":[]}';

export function readMetadata(json: Json): MetadataAction {
  const format = json['format'] == null ? {} : object(json['format'], 'format');
  return {
    id: json['id'] == null ? '' : text(json['id'], 'metaData.id'),
    name: optionalText(json['name']),
    description: optionalText(json['description']),
    format: { provider: optionalText(format['provider']) ?? 'parquet', options: textMap(format['options']) },
    // Old writers left it out for a table without columns.
    schemaString: json['schemaString'] == null ? NO_COLUMNS : text(json['schemaString'], 'metaData.schemaString'),
    partitionColumns: json['partitionColumns'] == null ? [] : texts(json['partitionColumns'], 'partitionColumns'),
    configuration: textMap(json['configuration']),
    createdTime: optionalInteger(json['createdTime'], 'createdTime'),
  };
}

export function readTxn(json: Json): TxnAction {
  return {
    appId: text(json['appId'], 'txn.appId'),
    version: integer(json['version'], 'txn.version'),
    lastUpdated: optionalInteger(json['lastUpdated'], 'txn.lastUpdated'),
  };
}

export function readDomain(json: Json): DomainMetadataAction {
  return {
    domain: text(json['domain'], 'domainMetadata.domain'),
    configuration: optionalText(json['configuration']) ?? '',
    removed: json['removed'] === true,
  };
}

export function readAdd(json: Json): AddFile {
  return {
    path: text(json['path'], 'add.path'),
    partitionValues: partitionValues(json['partitionValues']),
    size: integer(json['size'], 'add.size'),
    modificationTime: optionalInteger(json['modificationTime'], 'add.modificationTime') ?? 0n,
    dataChange: json['dataChange'] !== false,
    stats: optionalText(json['stats']),
    tags: tags(json['tags']),
    deletionVector: readVector(json['deletionVector']),
    baseRowId: optionalInteger(json['baseRowId'], 'add.baseRowId'),
    defaultRowCommitVersion: optionalInteger(json['defaultRowCommitVersion'], 'add.defaultRowCommitVersion'),
    clusteringProvider: optionalText(json['clusteringProvider']),
  };
}

export function readRemove(json: Json): RemoveFile {
  return {
    path: text(json['path'], 'remove.path'),
    deletionTimestamp: optionalInteger(json['deletionTimestamp'], 'remove.deletionTimestamp'),
    dataChange: json['dataChange'] !== false,
    extendedFileMetadata: json['extendedFileMetadata'] === true,
    partitionValues: json['partitionValues'] == null ? null : partitionValues(json['partitionValues']),
    size: optionalInteger(json['size'], 'remove.size'),
    stats: optionalText(json['stats']),
    tags: tags(json['tags']),
    deletionVector: readVector(json['deletionVector']),
    baseRowId: optionalInteger(json['baseRowId'], 'remove.baseRowId'),
    defaultRowCommitVersion: optionalInteger(json['defaultRowCommitVersion'], 'remove.defaultRowCommitVersion'),
  };
}

function readCdc(json: Json): CdcFile {
  return {
    path: text(json['path'], 'cdc.path'),
    partitionValues: partitionValues(json['partitionValues']),
    size: integer(json['size'], 'cdc.size'),
    tags: tags(json['tags']),
  };
}

export function readVector(value: unknown): DeletionVectorDescriptor | null {
  if (value == null) return null;
  const json = object(value, 'deletionVector');
  const storageType = json['storageType'];
  if (storageType !== 'u' && storageType !== 'i' && storageType !== 'p') {
    throw new TypeError('deletionVector.storageType is none of u, i, p');
  }
  return {
    storageType,
    pathOrInlineDv: text(json['pathOrInlineDv'], 'deletionVector.pathOrInlineDv'),
    offset: json['offset'] == null ? null : smallInteger(json['offset'], 'deletionVector.offset'),
    sizeInBytes: smallInteger(json['sizeInBytes'], 'deletionVector.sizeInBytes'),
    cardinality: integer(json['cardinality'], 'deletionVector.cardinality'),
  };
}

const NO_VALUES: PartitionValues = Object.freeze({});

function partitionValues(value: unknown): PartitionValues {
  if (value == null) return NO_VALUES;
  const json = object(value, 'partitionValues');
  const entries = Object.entries(json);
  if (entries.length === 0) return NO_VALUES;
  for (const [name, item] of entries) {
    if (item !== null && typeof item !== 'string') throw new TypeError(`partitionValues.${name} is not text`);
  }
  return json as PartitionValues;
}

function tags(value: unknown): Readonly<Record<string, string | null>> | null {
  if (value == null) return null;
  const out: Record<string, string | null> = {};
  for (const [name, item] of Object.entries(object(value, 'tags'))) out[name] = item == null ? null : scalarText(item);
  return out;
}

function textMap(value: unknown): Readonly<Record<string, string>> {
  if (value == null) return {};
  const out: Record<string, string> = {};
  for (const [name, item] of Object.entries(object(value, 'a map'))) {
    if (item != null) out[name] = scalarText(item);
  }
  return out;
}

/** Some writers put bare numbers and booleans where the protocol has text. */
function scalarText(value: unknown): string {
  return typeof value === 'string' ? value : stringifyLossless(value);
}

export function object(value: unknown, what: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TypeError(`${what} is not an object`);
  return value as Json;
}

function text(value: unknown, what: string): string {
  if (typeof value !== 'string') throw new TypeError(`${what} is not text`);
  return value;
}

function optionalText(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function texts(value: unknown, what: string): readonly string[] {
  if (!Array.isArray(value)) throw new TypeError(`${what} is not a list`);
  return value.map((item) => text(item, what));
}

function integer(value: unknown, what: string): bigint {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value);
  throw new TypeError(`${what} is not an integer`);
}

function optionalInteger(value: unknown, what: string): bigint | null {
  return value == null ? null : integer(value, what);
}

function smallInteger(value: unknown, what: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw new TypeError(`${what} is not an integer`);
  return value;
}
