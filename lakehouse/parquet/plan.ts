/**
 * Which leaves of a file make which columns of a table: fields are found by name, by physical name or by field id (Delta
 * protocol, "Column Mapping"); what the file lacks is NULL, what the table lacks is ignored. Lists may be 3-level or any of
 * the older shapes (parquet-format, LogicalTypes.md, "Backward-compatibility rules").
 */
import type { DeltaType, MapType, PrimitiveName, StructField, StructType } from '../table/schema.ts';
import { physicalName } from './stored-fields.ts';
import type { FileNode, ParquetFile } from './footer.ts';
import { ParquetError } from './parquet-error.ts';

export type ColumnMappingMode = 'none' | 'name' | 'id';

/** Levels of the innermost list around a node: a slot is an entry with rep <= `rep` and def >= `def`. */
export interface Context {
  readonly rep: number;
  readonly def: number;
}

export type PlanNode =
  | {
      readonly kind: 'leaf';
      readonly type: PrimitiveName;
      readonly node: FileNode;
      readonly leaf: number;
      readonly context: Context;
    }
  /** Not in the file. `leaf` counts the slots. */
  | { readonly kind: 'missing'; readonly type: DeltaType; readonly leaf: number; readonly context: Context }
  | {
      readonly kind: 'struct';
      readonly names: readonly string[];
      readonly children: readonly PlanNode[];
      readonly def: number;
      readonly leaf: number;
      readonly context: Context;
    }
  | {
      readonly kind: 'list';
      readonly child: PlanNode;
      readonly def: number;
      readonly leaf: number;
      readonly context: Context;
      readonly inner: Context;
    }
  | {
      readonly kind: 'map';
      readonly keys: PlanNode;
      readonly items: PlanNode;
      readonly def: number;
      readonly leaf: number;
      readonly context: Context;
      readonly inner: Context;
    };

export interface ColumnPlan {
  readonly name: string;
  /** Null: the file lacks the column. */
  readonly node: PlanNode | null;
  readonly type: DeltaType;
}

const TOP: Context = { rep: 0, def: 0 };

/** @throws ParquetError PARQUET_TYPE_MISMATCH when file and table disagree on a column's shape */
export function planColumns(file: ParquetFile, schema: StructType, mode: ColumnMappingMode): ColumnPlan[] {
  if (mode === 'id' && file.leaves.length > 0 && !hasFieldIds(file.root))
    throw new ParquetError(
      'PARQUET_UNSUPPORTED',
      file.source.name,
      'has no field ids, and its table maps columns by id: rewrite the file with ids',
    );
  return schema.fields.map((field) => {
    const node = findChild(file.root, field, mode);
    return {
      name: field.name,
      type: field.type,
      node: node === undefined || field.type === 'void' ? null : planField(file, field.type, node, TOP, mode),
    };
  });
}

function hasFieldIds(node: FileNode): boolean {
  return node.element.field_id !== undefined || node.children.some(hasFieldIds);
}

function findChild(parent: FileNode, field: StructField, mode: ColumnMappingMode): FileNode | undefined {
  const id = field.metadata['delta.columnMapping.id'];
  // A change file's `_change_type` is no column of the table, and has none.
  if (mode === 'id' && id !== undefined) {
    return parent.children.find(
      (child) => child.element.field_id !== undefined && child.element.field_id === Number(id),
    );
  }
  const name = physicalName(field, mode === 'name');
  const exact = parent.children.find((child) => child.name === name);
  if (exact !== undefined) return exact;
  // Names of one Delta schema differ by more than case, so a single match that differs by case is the column.
  const folded = parent.children.filter((child) => child.name.toLowerCase() === name.toLowerCase());
  return folded.length === 1 ? folded[0] : undefined;
}

/** Leaves that a plan reads, each once. */
export function leavesOf(node: PlanNode, into: Set<number>): void {
  into.add(node.leaf);
  if (node.kind === 'struct') for (const child of node.children) leavesOf(child, into);
  if (node.kind === 'list') leavesOf(node.child, into);
  if (node.kind === 'map') {
    leavesOf(node.keys, into);
    leavesOf(node.items, into);
  }
}

function planField(
  file: ParquetFile,
  type: DeltaType,
  node: FileNode,
  context: Context,
  mode: ColumnMappingMode,
): PlanNode {
  if (type === 'variant') return planVariant(file, node, context);
  if (typeof type === 'string') {
    if (node.element.type === undefined || node.maxRep !== context.rep) throw mismatch(file, node, type);
    return { kind: 'leaf', type, node, leaf: node.firstLeaf, context };
  }
  switch (type.type) {
    case 'struct':
      return planStruct(file, type, node, context, mode);
    case 'array':
      return planList(file, type.elementType, node, context, mode);
    case 'map':
      return planMap(file, type, node, context, mode);
  }
}

function mismatch(file: ParquetFile, node: FileNode, wanted: string): ParquetError {
  const shape = node.element.type ?? 'a group';
  return new ParquetError('PARQUET_TYPE_MISMATCH', file.source.name, `column ${node.name} is ${shape}, not ${wanted}`);
}

function planStruct(
  file: ParquetFile,
  type: StructType,
  node: FileNode,
  context: Context,
  mode: ColumnMappingMode,
): PlanNode {
  if (node.element.type !== undefined || node.maxRep !== context.rep) throw mismatch(file, node, 'a struct');
  const children = type.fields.map((field): PlanNode => {
    const child = field.type === 'void' ? undefined : findChild(node, field, mode);
    if (child === undefined) return { kind: 'missing', type: field.type, leaf: node.firstLeaf, context };
    return planField(file, field.type, child, context, mode);
  });
  const names = type.fields.map((field) => field.name);
  // A present child's leaf shows the struct's own levels too, and is read anyway.
  const leaf = children.find((child) => child.kind !== 'missing')?.leaf ?? node.firstLeaf;
  return { kind: 'struct', names, children, def: node.maxDef, leaf, context };
}

const BINARY_FIELD = (name: string): StructField => ({ name, type: 'binary', nullable: true, metadata: {} });

function planVariant(file: ParquetFile, node: FileNode, context: Context): PlanNode {
  if (node.children.some((child) => child.name === 'typed_value'))
    throw new ParquetError('PARQUET_UNSUPPORTED', file.source.name, `column ${node.name} is a shredded variant`);
  const type: StructType = { type: 'struct', fields: [BINARY_FIELD('metadata'), BINARY_FIELD('value')] };
  return planStruct(file, type, node, context, 'none');
}

function planList(
  file: ParquetFile,
  elementType: DeltaType,
  node: FileNode,
  context: Context,
  mode: ColumnMappingMode,
): PlanNode {
  const repeated = node.maxRep > context.rep ? node : node.children[0];
  if (
    repeated === undefined ||
    repeated.maxRep !== context.rep + 1 ||
    (repeated !== node && node.children.length !== 1)
  )
    throw mismatch(file, node, 'a list');
  const inner: Context = { rep: repeated.maxRep, def: repeated.maxDef };
  // Three levels when the repeated group wraps exactly one element; otherwise the repeated node is the element itself.
  const only = repeated.children[0];
  const wraps =
    repeated !== node &&
    only !== undefined &&
    repeated.children.length === 1 &&
    repeated.name !== 'array' &&
    repeated.name !== `${node.name}_tuple`;
  const child = planField(file, elementType, wraps ? only : repeated, inner, mode);
  // A bare repeated field is never NULL: the list is there at its parent's level.
  const def = repeated === node ? context.def : node.maxDef;
  return { kind: 'list', child, def, leaf: child.leaf, context, inner };
}

function planMap(
  file: ParquetFile,
  type: MapType,
  node: FileNode,
  context: Context,
  mode: ColumnMappingMode,
): PlanNode {
  const entry = node.children[0];
  const [key, value] = entry?.children ?? [];
  if (entry === undefined || key === undefined || node.children.length !== 1 || entry.maxRep !== context.rep + 1)
    throw mismatch(file, node, 'a map');
  const inner: Context = { rep: entry.maxRep, def: entry.maxDef };
  const keys = planField(file, type.keyType, key, inner, mode);
  const items: PlanNode =
    value === undefined
      ? { kind: 'missing', type: type.valueType, leaf: keys.leaf, context: inner }
      : planField(file, type.valueType, value, inner, mode);
  return { kind: 'map', keys, items, def: node.maxDef, leaf: keys.leaf, context, inner };
}
