import { expect, it } from 'vitest';
import { LogError, type EventLog } from '../log/log.ts';
import { createQuarantinePublisher } from './quarantine-topic.ts';

it('makes its topic again when that was deleted', async () => {
  const topics = new Set<string>();
  const written: string[] = [];
  const log = {
    admin: {
      ensureTopics(wanted: Record<string, unknown>) {
        for (const topic of Object.keys(wanted)) topics.add(topic);
        return Promise.resolve();
      },
    },
    writer: () =>
      Promise.resolve({
        recordBytesMax: 100,
        append(records: readonly { readonly topic: string }[]) {
          for (const { topic } of records) {
            if (!topics.has(topic)) return Promise.reject(new LogError('LOG_TOPIC_MISSING', `no topic ${topic}`));
            written.push(topic);
          }
          return Promise.resolve(new Map());
        },
        close: () => Promise.resolve(),
      }),
  } as unknown as EventLog;
  const publisher = createQuarantinePublisher(log, { identity: 'p.quarantine', enabled: true });
  const records = [{ topic: 'p.t.quarantine', key: null, value: null, header: null }];
  await publisher?.publish(records);
  topics.clear();
  await expect(publisher?.publish(records)).rejects.toMatchObject({ code: 'LOG_TOPIC_MISSING' });
  // The batch runs again.
  await publisher?.publish(records);
  expect(written).toEqual(['p.t.quarantine', 'p.t.quarantine']);
});
