/** Text formats that the standard's own keys have. Values in tables have theirs in rules/value-formats.ts. */
export interface TextFormat {
  readonly regex: RegExp;
  readonly expected: string;
}

/** RFC 3986 with a scheme; `${VAR}` and blanks are no URI. */
export const uri: TextFormat = {
  regex: /^[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/,
  expected: 'a URI with a scheme, such as s3://bucket/path',
};
export const stableId: TextFormat = { regex: /^[A-Za-z0-9_-]+$/, expected: 'an id (letters, digits, - and _)' };
export const calendarDay: TextFormat = {
  regex:
    /^\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2\d))$/,
  expected: 'a day such as 2026-01-31',
};
/** RFC 3339: an offset is required. */
export const instant: TextFormat = {
  regex:
    /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt ](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-][01]\d:?[0-5]\d)$/,
  expected: 'a time with an offset such as 2026-01-31T12:00:00Z',
};
const FULLY_QUALIFIED = String.raw`(?:(?:https?:\/\/)?[A-Za-z0-9._\-\/]+\.ya?ml#)?\/?[A-Za-z_][A-Za-z0-9_]*\/[A-Za-z0-9_-]+(?:\/[A-Za-z_][A-Za-z0-9_]*\/[A-Za-z0-9_-]+)*`;
/** `customers.customer_id`, or the path form `schema/customers/properties/customer_id`. */
export const reference31: TextFormat = {
  regex: new RegExp(String.raw`^(?:[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*|${FULLY_QUALIFIED})$`),
  expected: 'a reference such as customers.customer_id',
};
export const reference32: TextFormat = {
  regex: new RegExp(String.raw`^(?:[A-Za-z_][A-Za-z0-9_\-]*(?:\.[A-Za-z_][A-Za-z0-9_\-]*)+|${FULLY_QUALIFIED})$`),
  expected: 'a reference such as customers.customer_id',
};
