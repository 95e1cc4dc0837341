/** Parts that many elements of the standard share. */
import type { Minor } from './servers.ts';
import type { Field, Fields, ListOf, ObjectOf, Report, Shape, Text } from './shape.ts';
import { stableId } from './text-formats.ts';
import type { MapNode, TreePath } from '../yaml-tree.ts';

export type { Field, Fields, Shape } from './shape.ts';

export const text: Text = { kind: 'text' };
export const textList: ListOf = { kind: 'list', item: text };
export const tags: Shape = textList;
export const stableIdField: Fields = { id: { shape: { kind: 'text', pattern: stableId } } };

export function list(item: Shape): ListOf {
  return { kind: 'list', item };
}

export function object(
  name: string,
  fields: Fields,
  refine?: (node: MapNode) => Fields,
  check?: (node: MapNode, report: Report, path: TreePath) => void,
): ObjectOf {
  return {
    kind: 'object',
    name,
    fields,
    ...(refine === undefined ? {} : { refine }),
    ...(check === undefined ? {} : { check }),
  };
}

export function optionalTexts(...names: readonly string[]): Fields {
  return Object.fromEntries(names.map((name): [string, Field] => [name, { shape: text }]));
}

export const definitions: Shape = list(
  object('an authoritative definition', {
    ...stableIdField,
    url: { shape: text, required: true },
    type: { shape: text, required: true },
  }),
);

export function customProperties(minor: Minor): Shape {
  return list(
    object('a custom property', {
      ...stableIdField,
      property: { shape: text, required: true },
      value: { shape: { kind: 'any' }, required: true },
      description: { shape: text },
      ...(minor === '3.2' ? { vendor: { shape: text } } : {}),
    }),
  );
}
