import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openStore } from '../../../lakehouse/store/open-store.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { makeStateFolder } from './state-folder.ts';

const file = join(temporaryFolder('state-folder'), 'file');
writeFileSync(file, '');

it('a state folder that cannot be made is a fault of the configuration, named with the folder', () => {
  expect(() => makeStateFolder(join(file, 'state'))).toThrow(
    expect.objectContaining({ exit: 2, message: expect.stringMatching(/state: the folder .*file\/state.*ENOTDIR/) }),
  );
});

it.runIf(existsSync('/proc/self'))('so is one below /proc, where the system calls the parent missing', async () => {
  expect(() => makeStateFolder('/proc/sluice/state')).toThrow(
    expect.objectContaining({ exit: 2, message: expect.stringContaining('/proc/sluice/state cannot be used: ENOENT') }),
  );
  const lake = openStore('/proc/sluice/lake');
  await expect(lake.put('a', Buffer.from('x'))).rejects.toMatchObject({ code: 'STORE_CONTAINER_MISSING' });
  await lake.close();
});

it('so is a lake whose path leads through a file', async () => {
  const lake = openStore(join(file, 'lake'));
  const refused = {
    code: 'STORE_CONTAINER_MISSING',
    message: expect.stringContaining('a file stands where its folder'),
  };
  await expect(lake.put('a/b', Buffer.from('x'))).rejects.toMatchObject(refused);
  await expect(lake.putIfAbsent('a/b', Buffer.from('x'))).rejects.toMatchObject(refused);
  await lake.close();
});

it.each(['file:lake', 'file:./lake', 'file://host/lake'])('%s is no local file URI', (uri) => {
  expect(() => openStore(uri)).toThrow(expect.objectContaining({ code: 'STORE_BAD_URI' }));
});
