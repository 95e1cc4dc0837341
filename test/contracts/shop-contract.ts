/** A contract to change: `with` replaces lines, so that a test shows only what it is about. */
const ORDERS = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.orders
version: 1.0.0
status: active
name: orders
schema:
  - id: orders
    name: orders
    physicalName: public.orders
    physicalType: table
    logicalType: object
    customProperties:
      - {property: unknownColumns, value: evolve}
    quality:
      - {id: orders_rows, metric: rowCount, mustBeGreaterThan: 0, severity: error}
    properties:
      - {id: c1, name: order_id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {id: c2, name: status, logicalType: string, physicalType: order_status, required: true, quality: [{id: status_ok, metric: invalidValues, arguments: {validValues: [new, paid, shipped]}, mustBe: 0, severity: error}]}
      - {id: c3, name: total, logicalType: number, logicalTypeOptions: {minimum: 0}, physicalType: 'numeric(12,2)', required: true}
      - {id: c4, name: email, logicalType: string, physicalType: text, classification: restricted, tags: [pii], customProperties: [{property: pii, value: email}, {property: piiAction, value: hash}]}
      - {id: c5, name: paid_at, logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz}
`;

export type Edit = readonly [from: string | RegExp, to: string];

export function ordersContract(...edits: readonly Edit[]): string {
  return edits.reduce((text, [from, to]) => {
    const edited = text.replace(from, to);
    if (edited === text) throw new Error(`the contract has no ${String(from)}`);
    return edited;
  }, ORDERS);
}

export const WITHOUT_PAID_AT: Edit = [/^ {6}- \{id: c5.*\n/m, ''];
export const version = (to: string): Edit => [/^version: .*$/m, `version: ${to}`];
