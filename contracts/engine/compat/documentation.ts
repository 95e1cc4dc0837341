/** Everything in a contract that people read and no check does, as one text: what differs there is a change of documentation. */
import { VOCABULARY } from '../custom-properties.ts';
import type { Contract } from '../model.ts';
import { plain, readYaml } from '../yaml-tree.ts';
import type { MapNode, TreeNode } from '../yaml-tree.ts';

/** Wherever they stand. */
const ANYWHERE: ReadonlySet<string> = new Set([
  'authoritativeDefinitions',
  'businessImpact',
  'businessName',
  'criticalDataElement',
  'dataGranularityDescription',
  'description',
  'dimension',
  'driver',
  'encryptedName',
  'examples',
  'label',
  'method',
  'relationships',
  'schedule',
  'scheduler',
  'semanticType',
  'synonyms',
  'tags',
  'transformDescription',
  'transformLogic',
  'transformSourceObjects',
]);
/** Not the id: by it, or by an alias, it is known that both are one contract. */
const OF_THE_CONTRACT: ReadonlySet<string> = new Set([
  'contractCreatedTs',
  'dataProduct',
  'domain',
  'name',
  'price',
  'roles',
  'status',
  'support',
  'team',
  'tenant',
]);
/** Of a server these are compared for themselves. */
const PLACES: ReadonlySet<string> = new Set(['customProperties', 'format', 'location', 'path']);

/** Custom properties that do something, and are compared for it. */
const AT_WORK: ReadonlySet<string> = new Set(
  Object.values(VOCABULARY)
    .flatMap((names) => Object.keys(names))
    .filter((name) => name !== 'owner' && name !== 'deadLetterTopic'),
);

export function documentationOf({ source }: Contract): string {
  const { root } = readYaml(source.text);
  const found: unknown[] = [];
  if (root?.kind === 'map') {
    for (const { key, value } of root.entries.values()) {
      if (OF_THE_CONTRACT.has(key)) found.push([key, plain(value)]);
      else if (key === 'servers' && value.kind === 'list')
        for (const server of value.items) if (server.kind === 'map') found.push(without(server, PLACES));
    }
    collect(root, '', found);
  }
  return JSON.stringify(found.map((each) => JSON.stringify(each, exact)).toSorted());
}

function collect(node: TreeNode, path: string, found: unknown[]): void {
  if (node.kind === 'list') node.items.forEach((item, index) => collect(item, `${path}/${index}`, found));
  if (node.kind !== 'map') return;
  for (const { key, value } of node.entries.values()) {
    if (ANYWHERE.has(key)) found.push([`${path}/${key}`, plain(value)]);
    else if (key === 'customProperties' && value.kind === 'list') {
      for (const item of value.items) if (!AT_WORK.has(propertyOf(item))) found.push([path, plain(item)]);
    } else collect(value, `${path}/${key}`, found);
  }
}

function propertyOf(node: TreeNode): string {
  const property = node.kind === 'map' ? node.entries.get('property')?.value : undefined;
  return property?.kind === 'scalar' ? property.text : '';
}

const without = (node: MapNode, keys: ReadonlySet<string>): unknown[] =>
  [...node.entries.values()]
    .filter(({ key }) => !keys.has(key))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ key, value }): unknown => [key, plain(value)]);

const exact = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);
