/**
 * The elements of the Open Data Contract Standard, read 3.0.x, 3.1.0 and 3.2.0 (bitol-io/open-data-contract-standard). One
 * function per element; the minor version decides which keys exist. Every element is closed.
 */
import type { MapNode } from '../yaml-tree.ts';
import { qualityShape } from './quality.ts';
import { serverFields, serverTypes } from './servers.ts';
import type { Minor } from './servers.ts';
import type { Field, Fields, Shape } from './shape-parts.ts';
import {
  definitions,
  customProperties,
  list,
  object,
  optionalTexts,
  stableIdField,
  tags,
  text,
  textList,
} from './shape-parts.ts';
import { textAt } from './shape.ts';
import { calendarDay, instant, reference31, reference32 } from './text-formats.ts';

export const API_VERSIONS = ['v3.0.0', 'v3.0.1', 'v3.0.2', 'v3.1.0', 'v3.2.0'] as const;
export type ApiVersion = (typeof API_VERSIONS)[number];

export function minorOf(apiVersion: string): Minor {
  return apiVersion.startsWith('v3.0') ? '3.0' : apiVersion.startsWith('v3.2') ? '3.2' : '3.1';
}

export const LOGICAL_TYPES = [
  'string',
  'date',
  'timestamp',
  'time',
  'number',
  'integer',
  'object',
  'array',
  'boolean',
] as const;
export const LOGICAL_TYPES_32 = [...LOGICAL_TYPES, 'map', 'vector'] as const;
export const INTEGER_FORMATS = ['i8', 'i16', 'i32', 'i64', 'i128', 'u8', 'u16', 'u32', 'u64', 'u128'] as const;

/** The whole file. */
export function contractShape(apiVersion: string): Shape {
  const minor = minorOf(apiVersion);
  const fields: Record<string, Field> = {
    version: { shape: text, required: true },
    kind: { shape: { kind: 'text', words: ['DataContract'] }, required: true },
    apiVersion: { shape: { kind: 'text', words: API_VERSIONS }, required: true },
    id: { shape: text, required: true },
    status: { shape: text, required: minor !== '3.2' },
    // The prose of the standard requires `schema`, its JSON Schema does not (ODCS #343). A gate without columns checks nothing.
    schema: { shape: { kind: 'list', item: tableShape(minor), min: 1 }, required: true },
    ...optionalTexts('name', 'tenant', 'dataProduct', 'domain', 'slaDefaultElement'),
    tags: { shape: tags },
    servers: { shape: list(serverShape(minor)) },
    description: {
      shape: object('the description', {
        ...optionalTexts('usage', 'purpose', 'limitations'),
        authoritativeDefinitions: { shape: definitions },
        customProperties: { shape: customProperties(minor) },
      }),
    },
    support: { shape: list(supportShape(minor)) },
    price: {
      shape: object('the price', {
        ...stableIdField,
        priceAmount: { shape: { kind: 'number' } },
        ...optionalTexts('priceCurrency', 'priceUnit'),
      }),
    },
    team: { shape: { kind: 'either', options: [teamShape(minor), list(memberShape(minor))] } },
    roles: { shape: list(roleShape(minor)) },
    slaProperties: { shape: list(slaShape(minor)) },
    authoritativeDefinitions: { shape: definitions },
    customProperties: { shape: customProperties(minor) },
    contractCreatedTs: { shape: { kind: 'text', pattern: instant } },
  };
  if (minor === '3.2') fields['context'] = { shape: contextShape(minor) };
  return object('the contract', fields);
}

function serverShape(minor: Minor): Shape {
  return object(
    'a server',
    {
      ...stableIdField,
      server: { shape: text, required: true },
      type: { shape: { kind: 'text', words: serverTypes(minor) }, required: true },
      ...optionalTexts('description', 'environment'),
      roles: { shape: list(roleShape(minor)) },
      customProperties: { shape: customProperties(minor) },
    },
    (node) => serverFields(textAt(node, 'type') ?? '', minor),
  );
}

function elementFields(minor: Minor): Fields {
  const fields: Record<string, Field> = {
    ...stableIdField,
    ...optionalTexts('physicalType', 'physicalName', 'description', 'businessName'),
    authoritativeDefinitions: { shape: definitions },
    tags: { shape: tags },
    customProperties: { shape: customProperties(minor) },
    quality: { shape: list(qualityShape(minor)) },
  };
  if (minor !== '3.2') return fields;
  fields['deprecated'] = { shape: { kind: 'boolean' } };
  fields['synonyms'] = {
    shape: list(
      object('a synonym', {
        ...stableIdField,
        synonym: { shape: text, required: true },
        ...optionalTexts('description', 'locale', 'source', 'status'),
        customProperties: { shape: customProperties(minor) },
      }),
    ),
  };
  return fields;
}

function tableShape(minor: Minor): Shape {
  return object('a table', {
    ...elementFields(minor),
    name: { shape: text, required: true },
    logicalType: { shape: { kind: 'text', words: ['object'] } },
    dataGranularityDescription: { shape: text },
    properties: { shape: { kind: 'lazy', shape: () => list(columnShape(minor, true)) } },
    relationships: { shape: list(relationshipShape(minor, 'table')) },
    ...(minor === '3.2' ? { context: { shape: contextShape(minor) } } : {}),
  });
}

function columnShape(minor: Minor, named: boolean): Shape {
  const types: readonly string[] = minor === '3.2' ? LOGICAL_TYPES_32 : LOGICAL_TYPES;
  const fields: Record<string, Field> = {
    ...elementFields(minor),
    name: { shape: text, required: named },
    logicalType: { shape: { kind: 'text', words: types } },
    primaryKey: { shape: { kind: 'boolean' } },
    primaryKeyPosition: { shape: { kind: 'integer' } },
    required: { shape: { kind: 'boolean' } },
    unique: { shape: { kind: 'boolean' } },
    partitioned: { shape: { kind: 'boolean' } },
    partitionKeyPosition: { shape: { kind: 'integer' } },
    criticalDataElement: { shape: { kind: 'boolean' } },
    ...optionalTexts('classification', 'encryptedName', 'transformLogic', 'transformDescription'),
    transformSourceObjects: { shape: textList },
    examples: { shape: list({ kind: 'any' }) },
    relationships: { shape: list(relationshipShape(minor, 'column')) },
  };
  if (minor === '3.2') {
    fields['semanticType'] = { shape: { kind: 'text', words: ['column', 'measure', 'dimension'] } };
    fields['enum'] = { shape: { kind: 'list', item: enumValueShape(minor), min: 1, unique: true } };
  }
  return { ...object('a column', fields, (node) => typedFields(node, minor)), elsewhere: TYPED };
}

const TYPED: Readonly<Record<string, string>> = {
  logicalTypeOptions: 'without a logicalType that has options',
  items: 'unless its logicalType is array',
  properties: 'unless its logicalType is object',
  map: 'unless its logicalType is map (3.2)',
  enum: 'before 3.2: there a rule of the metric invalidValues lists them',
  deprecated: 'before 3.2: there a custom property says so',
};

/** The keys that the logical type brings: its options, and the nested element of arrays, objects and maps. */
function typedFields(node: MapNode, minor: Minor): Fields {
  const written = textAt(node, 'logicalType');
  const known: readonly string[] = minor === '3.2' ? LOGICAL_TYPES_32 : LOGICAL_TYPES;
  const type = written !== null && known.includes(written) ? written : null;
  const fields: Record<string, Field> = {};
  const options = optionFields(type);
  if (options !== null)
    fields['logicalTypeOptions'] = {
      shape: object(`logicalTypeOptions of ${type}`, options),
      required: type === 'vector',
    };
  const item: Shape = { kind: 'lazy', shape: () => columnShape(minor, false) };
  if (type === 'array') fields['items'] = { shape: item };
  if (type === 'object')
    fields['properties'] = { shape: { kind: 'lazy', shape: () => list(columnShape(minor, true)) } };
  if (type === 'map')
    fields['map'] = {
      shape: object('a map type', { key: { shape: item, required: true }, value: { shape: item, required: true } }),
      required: true,
    };
  return fields;
}

const count: Field = { shape: { kind: 'integer', min: 0 } };
const bound: Field = { shape: { kind: 'number' } };
const textBound: Field = { shape: text };

function optionFields(type: string | null): Fields | null {
  switch (type) {
    case 'string':
      return { minLength: count, maxLength: count, ...optionalTexts('pattern', 'format') };
    case 'integer':
    case 'number':
      return {
        multipleOf: { shape: { kind: 'number', above: 0 } },
        minimum: bound,
        maximum: bound,
        exclusiveMinimum: bound,
        exclusiveMaximum: bound,
        format: { shape: { kind: 'text', words: type === 'integer' ? INTEGER_FORMATS : ['f32', 'f64'] } },
      };
    case 'date':
      return {
        format: textBound,
        minimum: textBound,
        maximum: textBound,
        exclusiveMinimum: textBound,
        exclusiveMaximum: textBound,
      };
    case 'timestamp':
    case 'time':
      return { ...optionFields('date'), timezone: { shape: { kind: 'boolean' } }, defaultTimezone: textBound };
    case 'array':
      return { minItems: count, maxItems: count, uniqueItems: { shape: { kind: 'boolean' } } };
    case 'object':
      return {
        minProperties: count,
        maxProperties: count,
        required: { shape: { kind: 'list', item: text, min: 1, unique: true } },
      };
    case 'boolean':
    case 'map':
      return {};
    case 'vector':
      return vectorOptions;
    default:
      return null;
  }
}

const vectorOptions: Fields = {
  dimensions: { shape: { kind: 'integer', min: 1 }, required: true },
  elementType: {
    shape: { kind: 'text', words: ['bfloat16', 'binary', 'float16', 'float32', 'float64', 'int8', 'uint8'] },
  },
  distanceMetric: { shape: { kind: 'text', words: ['cosine', 'dotProduct', 'euclidean', 'hamming', 'manhattan'] } },
  ...optionalTexts('embeddingModel', 'embeddingModelVersion'),
  normalized: { shape: { kind: 'boolean' } },
};

function enumValueShape(minor: Minor): Shape {
  return object('an enum value', {
    ...stableIdField,
    value: { shape: { kind: 'scalar' }, required: true },
    ...optionalTexts('label', 'description'),
    tags: { shape: tags },
    customProperties: { shape: customProperties(minor) },
    authoritativeDefinitions: { shape: definitions },
  });
}

function relationshipShape(minor: Minor, level: 'table' | 'column'): Shape {
  const one: Shape = { kind: 'text', pattern: minor === '3.2' ? reference32 : reference31 };
  const end: Shape = { kind: 'either', options: [one, { kind: 'list', item: one, min: 1 }] };
  return object(
    'a relationship',
    {
      type: { shape: { kind: 'text', words: ['foreignKey'] } },
      to: { shape: end, required: true },
      customProperties: { shape: customProperties(minor) },
      ...(level === 'table' ? { from: { shape: end, required: true } } : {}),
    },
    undefined,
    (node, report, path) => {
      const from = node.entries.get('from')?.value;
      const to = node.entries.get('to')?.value;
      if (level === 'column' || from === undefined || to === undefined) return;
      const sizes = [from, to].map((side) => (side.kind === 'list' ? side.items.length : 0));
      if (sizes[0] !== sizes[1])
        report({
          code: 'REFERENCE',
          message: "'from' and 'to' must both be one column, or lists of the same length",
          at: to.at,
          path,
          hint: null,
        });
    },
  );
}

function slaShape(minor: Minor): Shape {
  return object('an SLA', {
    ...stableIdField,
    property: { shape: text, required: true },
    value: { shape: { kind: 'scalar' }, required: true },
    valueExt: { shape: { kind: 'scalar' } },
    ...optionalTexts('unit', 'element', 'driver', 'description', 'scheduler', 'schedule'),
    ...(minor === '3.2'
      ? { customProperties: { shape: customProperties(minor) }, authoritativeDefinitions: { shape: definitions } }
      : {}),
  });
}

function supportShape(minor: Minor): Shape {
  return object('a support channel', {
    ...stableIdField,
    channel: { shape: text, required: true },
    ...optionalTexts('url', 'description', 'tool', 'scope', 'invitationUrl'),
    customProperties: { shape: customProperties(minor) },
  });
}

function memberShape(minor: Minor): Shape {
  return object('a team member', {
    ...stableIdField,
    username: { shape: text, required: true },
    ...optionalTexts('name', 'description', 'role', 'replacedByUsername'),
    dateIn: { shape: { kind: 'text', pattern: calendarDay } },
    dateOut: { shape: { kind: 'text', pattern: calendarDay } },
    tags: { shape: tags },
    customProperties: { shape: customProperties(minor) },
    authoritativeDefinitions: { shape: definitions },
  });
}

function teamShape(minor: Minor): Shape {
  return object('the team', {
    ...stableIdField,
    ...optionalTexts('name', 'description'),
    members: { shape: list(memberShape(minor)) },
    tags: { shape: tags },
    customProperties: { shape: customProperties(minor) },
    authoritativeDefinitions: { shape: definitions },
  });
}

function roleShape(minor: Minor): Shape {
  return object('a role', {
    ...stableIdField,
    role: { shape: text, required: true },
    ...optionalTexts('description', 'access', 'firstLevelApprovers', 'secondLevelApprovers'),
    customProperties: { shape: customProperties(minor) },
  });
}

function contextShape(minor: Minor): Shape {
  const common: Fields = {
    id: { shape: text },
    authoritativeDefinitions: { shape: definitions },
    tags: { shape: tags },
    customProperties: { shape: customProperties(minor) },
  };
  const statement = object('a verified statement', {
    ...common,
    question: { shape: text, required: true },
    answer: { shape: text },
  });
  const constraint = object('a constraint', { ...common, constraint: { shape: text, required: true } });
  const full = object('the context', {
    instructions: { shape: text },
    verifiedStatements: { shape: list(statement) },
    constraints: { shape: list(constraint) },
  });
  return { kind: 'either', options: [text, full] };
}
