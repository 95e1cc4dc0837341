/**
 * Column plans → three ajv validators a table: all columns (insert, snapshot), columns that may be absent (update), key
 * columns only (delete). Our checks are one ajv keyword whose generated code calls each test with the bare value, so that a
 * good row allocates nothing.
 */
import { _, Ajv2019 } from 'ajv/dist/2019.js';
import type { CodeKeywordDefinition, KeywordCxt, SchemaObject, ValidateFunction } from 'ajv/dist/2019.js';

import type { ColumnCheck, ColumnPlan } from './column-plan.ts';

/** An entry of `checks`: its number in the gate's list stands in the error's params. */
interface NumberedCheck {
  readonly number: number;
  readonly check: ColumnCheck;
}

const checksKeyword: CodeKeywordDefinition = {
  keyword: 'checks',
  error: { message: 'failed', params: (cxt) => _`{check: ${cxt.params['check']}}` },
  code(cxt: KeywordCxt) {
    const { gen, data } = cxt;
    for (const { number, check } of cxt.schema as readonly NumberedCheck[]) {
      const test = gen.scopeValue('func', { ref: check.test });
      cxt.setParams({ check: number });
      cxt.fail(check.nulls ? _`!${test}(${data})` : _`${data} !== null && !${test}(${data})`);
    }
  },
};

/** `absent: {counters, columns}`: one counter a column, raised when the event does not carry it. */
interface AbsentSchema {
  readonly counters: Float64Array;
  readonly columns: readonly { readonly name: string; readonly index: number }[];
}
const absentKeyword: CodeKeywordDefinition = {
  keyword: 'absent',
  code(cxt: KeywordCxt) {
    const { gen, data } = cxt;
    const { counters, columns } = cxt.schema as AbsentSchema;
    const target = gen.scopeValue('obj', { ref: counters });
    for (const column of columns)
      gen.if(_`${data}[${column.name}] === undefined`, () => gen.code(_`${target}[${column.index}]++`));
  },
};

export interface RowValidators {
  readonly full: ValidateFunction;
  readonly partial: ValidateFunction;
  readonly key: ValidateFunction;
  /** By `params.check` of an error. */
  readonly checks: readonly ColumnCheck[];
  /** By column, in plan order: events that did not carry it. */
  readonly absences: Float64Array;
}

export function compileValidators(plans: readonly ColumnPlan[]): RowValidators {
  const ajv = new Ajv2019({
    allErrors: true,
    strict: false,
    validateSchema: false,
    messages: false,
    addUsedSchema: false,
    unevaluated: false,
  });
  ajv.addKeyword(checksKeyword);
  ajv.addKeyword(absentKeyword);
  const checks: ColumnCheck[] = [];
  const number = (list: readonly ColumnCheck[]): NumberedCheck[] =>
    list.map((check) => ({ check, number: checks.push(check) - 1 }));
  const absences = new Float64Array(plans.length);
  const properties = new Map<string, SchemaObject>();
  for (const plan of plans) {
    const schema: SchemaObject = { checks: number(plan.checks) };
    if (plan.itemChecks.length > 0) schema['items'] = { checks: number(plan.itemChecks) };
    properties.set(plan.column.name, schema);
  }
  const keys = plans.filter((plan) => plan.column.keyPosition > 0);
  const named = (list: readonly ColumnPlan[]): SchemaObject =>
    Object.fromEntries(list.map((plan) => [plan.column.name, properties.get(plan.column.name)]));
  const absent: AbsentSchema = {
    counters: absences,
    columns: plans.flatMap((plan, index) => (plan.ruleIds.length > 0 ? [{ name: plan.column.name, index }] : [])),
  };
  const keyNames = keys.map((plan) => plan.column.name);
  const required = plans
    .filter((plan) => plan.column.required || plan.column.keyPosition > 0)
    .map((plan) => plan.column.name);
  return {
    full: ajv.compile({ required, properties: named(plans), absent }),
    partial: ajv.compile({ required: keyNames, properties: named(plans), absent }),
    key: ajv.compile({ required: keyNames, properties: named(keys) }),
    checks,
    absences,
  };
}
