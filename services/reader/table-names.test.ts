import { describe, expect, it } from 'vitest';
import { dataTopic } from '../log/topics.ts';
import { nameClash } from './table-names.ts';

const table = (schema: string, name: string) => ({ schema, table: name });
const why = (one: ReturnType<typeof table>, ...others: ReturnType<typeof table>[]): string | null =>
  nameClash(one, [one, ...others], 'embedded')?.message ?? null;

describe('names that the lake and the log keep apart', () => {
  it('are those that differ by more than case and by more than what becomes _', () => {
    expect(why(table('public', 'orders'), table('public', 'order_items'))).toBeNull();
    expect(why(table('public', 'orders'), table('public', 'ORDERS'))).toMatch(/one folder/);
    expect(why(table('public', 'a/b'), table('public', 'a_b'))).toMatch(/one folder/);
    expect(why(table('public', 'orders__quarantine'), table('public', 'orders'))).toMatch(
      /quarantine of public.orders/,
    );
    expect(why(table('public', 'orders'), table('public', 'orders__quarantine'))).toBeNull();
  });

  it('are those whose schema and table are not one text with another dot between', () => {
    expect(why(table('a.b', 'c'), table('a', 'b.c'))).toMatch(/one name, a.b.c/);
    expect(why(table('public', 'orders.quarantine'), table('public', 'orders'))).toMatch(/topic of the quarantine/);
  });

  it('are not those whose topics Kafka takes for one, where the log is Kafka', () => {
    const [one, other] = [table('app', 'user_roles'), table('app_user', 'roles')];
    expect(nameClash(one, [one, other], 'embedded')).toBeNull();
    const refused = nameClash(one, [one, other], 'kafka');
    expect(refused?.message).toMatch(/topics that Kafka takes for one/);
    expect(refused?.remedy).toMatch(/pipeline of another name.*!app\.user_roles/);
    expect(nameClash(one, [one, table('app', 'users')], 'kafka')).toBeNull();
  });

  it("are none that stand for another folder or for the pipeline's own", () => {
    expect(why(table('public', '..'))).toMatch(/no folder in the lake/);
    expect(why(table('.', 't'))).toMatch(/no folder in the lake/);
    expect(why(table('_Sluice', 'checkpoints'))).toMatch(/own files/);
    expect(nameClash(table('public', '..'), [], 'embedded')?.remedy).toBe(
      'rename it, or leave it out: source.tables: ["!public..."]',
    );
  });

  it('have topics of their own in any script', () => {
    const names = ['订单', '客户', 'été', 'êtê', 'a b', 'a:b', 'a_b', 'orders'];
    const topics = names.map((name) => dataTopic('shop', 'public', name));
    expect(new Set(topics).size).toBe(names.length);
    for (const topic of topics) expect(topic).toMatch(/^[A-Za-z0-9._-]{1,249}$/);
    expect(dataTopic('shop', 'public', 'orders')).toBe('shop.public.orders');
    expect(dataTopic('shop', 'My.Schema', 'Order-Items')).toBe('shop.My.Schema.Order-Items');
  });
});
