/** An unscaled 128-bit decimal (low and high word) as plain digits with exactly `scale` of them behind the point. */
export function unscaledText(low: bigint, high: bigint, scale: number): string {
  const value = (high << 64n) | BigInt.asUintN(64, low);
  const negative = value < 0n;
  const digits = (negative ? -value : value).toString().padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  return `${negative ? '-' : ''}${whole}${scale > 0 ? `.${digits.slice(-scale)}` : ''}`;
}
