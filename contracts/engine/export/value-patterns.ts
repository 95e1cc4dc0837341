/** Wire texts of numbers and times as ECMA-262 patterns, without anchors unless said: what the gate takes, digit for digit. */
import { parseDecimal } from '../decimal-text.ts';
import type { DecimalParts } from '../type-table.ts';

/** Years of four to seven digits, days that exist, 29 February in leap years only. */
export const DATE_PATTERN =
  '(?!0+-)(?:\\d{4,7}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))' +
  '|(?:\\d{2,5}(?:0[48]|[2468][048]|[13579][26])|\\d{0,3}(?:[02468][048]|[13579][26])00)-02-29)';
export const TIME_PATTERN = 'T(?:[01]\\d|2[0-4]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d{1,6})?';

/** Anchored. Null parts: any number of digits. `special`: NaN and the infinities are let in. */
export function decimalPattern(parts: DecimalParts | null, special: boolean): string {
  const number =
    parts === null
      ? '-?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)'
      : `-?(?=\\.?[0-9])0*[0-9]{0,${parts.precision - parts.scale}}(?:\\.[0-9]{0,${parts.scale}}0*)?`;
  return special ? `^(?:${number}|NaN|-?Infinity)$` : `^${number}$`;
}

/** Every text of one number: 1.5, 01.50. Null when it is no number. */
export function decimalValuePattern(text: string): string | null {
  const value = parseDecimal(text);
  if (value === null) return null;
  const negative = value.unscaled < 0n;
  const digits = (negative ? -value.unscaled : value.unscaled).toString().padStart(value.scale + 1, '0');
  const whole = digits.slice(0, digits.length - value.scale).replace(/^0+/, '');
  const fraction = value.scale === 0 ? '' : digits.slice(digits.length - value.scale).replace(/0+$/, '');
  const sign = value.unscaled === 0n ? '-?' : negative ? '-' : '';
  return `${sign}0*${whole}(?:\\.${fraction}0*)${fraction === '' ? '?' : ''}`;
}
