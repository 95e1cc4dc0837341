/** Typed access to the keys of a tree node: the wrong kind reads as absent, the shape check has reported it. */
import type { ListNode, MapNode, ScalarNode, ScalarValue, TreeNode } from './yaml-tree.ts';

export function child(node: MapNode, key: string): TreeNode | undefined {
  return node.entries.get(key)?.value;
}

export function scalarAt(node: MapNode, key: string): ScalarNode | null {
  const value = child(node, key);
  return value?.kind === 'scalar' ? value : null;
}

export function textOrNull(node: MapNode, key: string): string | null {
  const value = scalarAt(node, key);
  if (value === null || value.value === null) return null;
  return typeof value.value === 'string' ? value.value : value.text;
}

export function flag(node: MapNode, key: string): boolean {
  return scalarAt(node, key)?.value === true;
}

export function positionOf(node: MapNode, key: string): number {
  const value = scalarAt(node, key)?.value;
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : 0;
}

export function countOrNull(node: MapNode, key: string): number | null {
  const value = scalarAt(node, key)?.value;
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null;
}

export function mapAt(node: MapNode, key: string): MapNode | null {
  const value = child(node, key);
  return value?.kind === 'map' ? value : null;
}

export function listAt(node: MapNode, key: string): ListNode | null {
  const value = child(node, key);
  return value?.kind === 'list' ? value : null;
}

export function textsAt(node: MapNode, key: string): string[] {
  return (listAt(node, key)?.items ?? []).flatMap((item) =>
    item.kind === 'scalar' && item.value !== null ? [typeof item.value === 'string' ? item.value : item.text] : [],
  );
}

export function scalarsAt(node: MapNode, key: string): ScalarValue[] | null {
  const list = listAt(node, key);
  if (list === null) return null;
  return list.items.flatMap((item) => (item.kind === 'scalar' ? [item.value] : []));
}
