/**
 * Level streams to columns (Dremel assembly, by column): a slot of a node is an entry with rep <= its context's `rep` and
 * def >= its context's `def`; it is present when its def reaches the node's own level.
 */
import type { ColumnVector } from '../table/column.ts';
import { convertValues } from './convert.ts';
import type { LeafData } from './leaf.ts';
import type { Context, PlanNode } from './plan.ts';
import { nullColumn, spreadValues } from './spread.ts';

export type LeafLookup = (leaf: number) => LeafData;

export function assemble(plan: PlanNode, leafData: LeafLookup): ColumnVector {
  const leaf = leafData(plan.leaf);
  switch (plan.kind) {
    case 'leaf': {
      const dense = convertValues(leaf.values, plan.node.element, plan.type);
      const slots = presence(leaf, plan.context, plan.node.maxDef);
      return slots.validity === null ? dense : spreadValues(dense, slots.validity, slots.length);
    }
    case 'missing':
      return nullColumn(plan.type, presence(leaf, plan.context, plan.context.def).length);
    case 'struct': {
      const children = plan.children.map((child) => assemble(child, leafData));
      return { kind: 'struct', ...presence(leaf, plan.context, plan.def), names: plan.names, children };
    }
    case 'list': {
      const slots = presence(leaf, plan.context, plan.def);
      const child = assemble(plan.child, leafData);
      return { kind: 'list', ...slots, offsets: elementOffsets(leaf, plan, slots.length), child };
    }
    case 'map': {
      const slots = presence(leaf, plan.context, plan.def);
      const keys = assemble(plan.keys, leafData);
      const items = assemble(plan.items, leafData);
      return { kind: 'map', ...slots, offsets: elementOffsets(leaf, plan, slots.length), keys, items };
    }
  }
}

/** Slots of a context, and which of them reach `def`; `validity` null when all do. */
function presence(leaf: LeafData, context: Context, def: number): { length: number; validity: Uint8Array | null } {
  const { defs, reps, count } = leaf;
  if (defs === null && reps === null) return { length: count, validity: null };
  const bits = new Uint8Array((count + 7) >> 3);
  let length = 0;
  let nulls = 0;
  for (let i = 0; i < count; i++) {
    if (reps !== null && (reps[i] ?? 0) > context.rep) continue;
    const level = defs === null ? def : (defs[i] ?? 0);
    if (level < context.def) continue;
    if (level >= def) bits[length >> 3] = (bits[length >> 3] ?? 0) | (1 << (length & 7));
    else nulls++;
    length++;
  }
  return { length, validity: nulls === 0 ? null : bits.subarray(0, (length + 7) >> 3) };
}

function elementOffsets(
  leaf: LeafData,
  plan: { readonly context: Context; readonly inner: Context },
  length: number,
): Int32Array {
  const { defs, reps, count } = leaf;
  const { context, inner } = plan;
  const offsets = new Int32Array(length + 1);
  let slot = -1;
  let elements = 0;
  for (let i = 0; i < count; i++) {
    const rep = reps === null ? 0 : (reps[i] ?? 0);
    const def = defs === null ? inner.def : (defs[i] ?? 0);
    if (rep <= context.rep && def >= context.def) {
      slot++;
      offsets[slot] = elements;
    }
    if (rep <= inner.rep && def >= inner.def) elements++;
  }
  offsets[length] = elements;
  return offsets;
}
