/** Codes of reasons for which a row is quarantined. A number is never given to another meaning, and none is taken away. */
import { ExitCode } from '../errors.ts';
import type { CodeEntry } from './code-entry.ts';

export const QUARANTINE_CODES = {
  TYPE: {
    code: 'SLU-7101',
    title: "a value is not of the column's type",
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the value at the source, or the type in the contract',
  },
  UNREPRESENTABLE: {
    code: 'SLU-7102',
    title: 'a value has no exact place in the lake',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'state a policy for such values in the contract, or correct them at the source',
  },
  REQUIRED: {
    code: 'SLU-7103',
    title: 'a required value is absent',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row at the source, or drop `required`',
  },
  ENUM: {
    code: 'SLU-7104',
    title: 'a value is not among the allowed ones',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'add the value to the contract, set enumOpen: true, or correct the row',
  },
  LENGTH: {
    code: 'SLU-7105',
    title: 'a text is too short or too long',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row, or the bounds in the contract',
  },
  PATTERN: {
    code: 'SLU-7106',
    title: 'a text does not match its pattern',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row, or the pattern in the contract',
  },
  BOUND: {
    code: 'SLU-7107',
    title: 'a value is out of bounds',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row, or the bounds in the contract',
  },
  FORMAT: {
    code: 'SLU-7108',
    title: 'a text has not its format',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row, or the format in the contract',
  },
  ARRAY_SHAPE: {
    code: 'SLU-7109',
    title: 'an array has another shape than the lake can hold',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row at the source',
  },
  UNKNOWN_COLUMN: {
    code: 'SLU-7110',
    title: 'the row has a column that the contract does not know',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'add the column to the contract, or set unknownColumns',
  },
  RULE: {
    code: 'SLU-7111',
    title: 'a row rule is violated',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row, or the rule in the contract',
  },
  RULE_ERROR: {
    code: 'SLU-7112',
    title: 'a row rule could not be evaluated',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the rule so that it holds for NULL and edge values',
  },
  KEY_NULL: {
    code: 'SLU-7113',
    title: 'a key column is NULL',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'correct the row at the source',
  },
  DECODE: {
    code: 'SLU-7114',
    title: 'a record could not be decoded',
    exit: ExitCode.clean,
    retry: false,
    remedy: 'see DECODE_NOT_JSON, DECODE_NOT_ENVELOPE and DECODE_NULL_KEY',
  },
} as const satisfies Readonly<Record<string, CodeEntry>>;
