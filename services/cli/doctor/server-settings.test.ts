import { expect, it } from 'vitest';
import { judgeSettings } from './server-settings.ts';

it('warns of the settings that lose a slot or fill a disk, each with its SQL', () => {
  const good = [
    { name: 'max_slot_wal_keep_size', value: '51200' },
    { name: 'wal_sender_timeout', value: '60000' },
    { name: 'idle_replication_slot_timeout', value: '0' },
  ];
  expect(judgeSettings(good)).toMatchObject([{ status: 'ok' }]);
  const bad = [
    { name: 'max_slot_wal_keep_size', value: '-1' },
    { name: 'wal_sender_timeout', value: '0' },
    { name: 'idle_replication_slot_timeout', value: '3600' },
  ];
  const findings = judgeSettings(bad);
  expect(findings.map(({ status }) => status)).toEqual(['warning', 'warning', 'warning']);
  bad.forEach(({ name }, i) => {
    expect(findings[i]?.detail).toContain(name);
    expect(findings[i]?.fix).toContain(`ALTER SYSTEM SET ${name}`);
  });
});

it('warns of a database that takes bytes which no client in UTF-8 can be sent', () => {
  const encoded = (value: string): unknown => judgeSettings([{ name: 'server_encoding', value }])[0]?.status;
  expect(['UTF8', 'LATIN1', 'SQL_ASCII'].map(encoded)).toEqual(['ok', 'ok', 'warning']);
});
