/** Where a file's deletion vector stands (PROTOCOL.md, "Deletion Vectors"). The codec is deletion-vector.ts. */
export interface DeletionVectorDescriptor {
  /** `u`: file named by a z85 uuid, below the table root; `i`: inline z85; `p`: absolute URI. */
  readonly storageType: 'u' | 'i' | 'p';
  readonly pathOrInlineDv: string;
  /** Byte offset of the vector's size field in its file; null for inline vectors. */
  readonly offset: number | null;
  /** Bytes of the serialized bitmap, without the file's framing. */
  readonly sizeInBytes: number;
  /** Rows the vector marks. */
  readonly cardinality: bigint;
}
