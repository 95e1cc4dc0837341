import { expect, it } from 'vitest';
import type { GroupOptions } from '../log/membership.ts';
import { joinWorkers, type WorkerGroup } from './worker-group.ts';

/** A worker whose group does nothing until the test says so. */
function member(begin: () => Promise<void>): { group: WorkerGroup; share: () => void; lose: () => void } {
  let options: GroupOptions | null = null;
  const known = ['public.a', 'public.b'];
  const self = {
    share: () => options?.onShare(options.share(new Map([['me', options.describe()]])).get('me') ?? Buffer.alloc(0)),
    lose: () => options?.onLost(),
    group: joinWorkers({
      pipeline: 'shop',
      join(given) {
        options = given;
        return { again: () => undefined, leave: async () => undefined };
      },
      sharedCheckpoint: true,
      known: () => known,
      begin,
      end: async () => undefined,
      onShare: () => undefined,
      onRefused: () => undefined,
      onFailure: () => undefined,
    }),
  };
  return self;
}

it('is settled when this worker has begun on what it got, and not once the group went on without it', async () => {
  let begun = (): void => undefined;
  const { group, share, lose } = member(() => new Promise((resolve) => (begun = resolve)));
  expect(group.settled()).toBe(false);
  share();
  await new Promise(setImmediate);
  expect(group.settled()).toBe(false);
  begun();
  await group.joined;
  await new Promise(setImmediate);
  expect(group.settled()).toBe(true);
  lose();
  await new Promise(setImmediate);
  expect(group.settled()).toBe(false);
  share();
  await new Promise(setImmediate);
  begun();
  await new Promise(setImmediate);
  expect(group.settled()).toBe(true);
});
