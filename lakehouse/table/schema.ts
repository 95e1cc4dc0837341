/** Delta table schema (PROTOCOL.md, "Schema Serialization Format"). */
export type PrimitiveName =
  | 'string'
  | 'long'
  | 'integer'
  | 'short'
  | 'byte'
  | 'float'
  | 'double'
  | 'boolean'
  | 'binary'
  | 'date'
  | 'timestamp'
  | 'timestamp_ntz'
  | 'void'
  | 'variant'
  | `decimal(${number},${number})`;

export interface ArrayType {
  readonly type: 'array';
  readonly elementType: DeltaType;
  readonly containsNull: boolean;
}
export interface MapType {
  readonly type: 'map';
  readonly keyType: DeltaType;
  readonly valueType: DeltaType;
  readonly valueContainsNull: boolean;
}
export interface StructType {
  readonly type: 'struct';
  readonly fields: readonly StructField[];
}
export type DeltaType = PrimitiveName | ArrayType | MapType | StructType;

export interface StructField {
  readonly name: string;
  readonly type: DeltaType;
  readonly nullable: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
}
