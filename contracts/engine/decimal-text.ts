/**
 * Exact decimals as text: sign, digits, scale. Everything that compares or divides decimals goes through here; no double
 * touches them. Input forms: `-12.30`, `+1`, `.5`, `1e-3`.
 */
export interface Decimal {
  /** Value = unscaled / 10^scale. */
  readonly unscaled: bigint;
  readonly scale: number;
}

/** 1e131072 is PostgreSQL's own limit; a contract's bound never needs more, and a typo must not eat the memory. */
const EXPONENT_MAX = 131_072;
const FORM = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,6}))?$/;

/** Null when the text is no finite decimal number. */
export function parseDecimal(text: string): Decimal | null {
  const match = FORM.exec(text);
  if (match === null) return null;
  const whole = match[2] ?? '';
  const fraction = match[3] ?? match[4] ?? '';
  const exponent = Number(match[5] ?? '0');
  if (Math.abs(exponent) > EXPONENT_MAX) return null;
  const digits = BigInt(whole + fraction);
  const unscaled = match[1] === '-' ? -digits : digits;
  const scale = fraction.length - exponent;
  return scale >= 0 ? { unscaled, scale } : { unscaled: unscaled * 10n ** BigInt(-scale), scale: 0 };
}

function parseRadix(text: string): Decimal | null {
  return /^0(?:x[0-9A-Fa-f]+|o[0-7]+)$/.test(text) ? { unscaled: BigInt(text), scale: 0 } : null;
}

export function compareDecimals(a: Decimal, b: Decimal): number {
  const [left, right] =
    a.scale === b.scale
      ? [a.unscaled, b.unscaled]
      : a.scale < b.scale
        ? [a.unscaled * 10n ** BigInt(b.scale - a.scale), b.unscaled]
        : [a.unscaled, b.unscaled * 10n ** BigInt(a.scale - b.scale)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** `value` is a whole multiple of `step`; step must not be zero. */
export function isMultipleOf(value: Decimal, step: Decimal): boolean {
  const scale = Math.max(value.scale, step.scale);
  const a = value.unscaled * 10n ** BigInt(scale - value.scale);
  const b = step.unscaled * 10n ** BigInt(scale - step.scale);
  return b !== 0n && a % b === 0n;
}

export function formatDecimal(value: Decimal): string {
  const negative = value.unscaled < 0n;
  const digits = (negative ? -value.unscaled : value.unscaled).toString().padStart(value.scale + 1, '0');
  const whole = digits.slice(0, digits.length - value.scale);
  const fraction = value.scale === 0 ? '' : `.${digits.slice(digits.length - value.scale)}`;
  return `${negative ? '-' : ''}${whole}${fraction}`;
}

/** Shortest equal text of a number in YAML (`0x1F` and `0o17` are numbers there): `1.50` and `1.5` are one bound. Null: no number. */
export function normaliseNumber(text: string): string | null {
  const value = parseDecimal(text) ?? parseRadix(text);
  if (value === null) return null;
  let { unscaled, scale } = value;
  while (scale > 0 && unscaled % 10n === 0n) {
    unscaled /= 10n;
    scale--;
  }
  return formatDecimal({ unscaled, scale });
}
