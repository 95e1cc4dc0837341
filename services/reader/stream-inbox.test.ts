import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { createStreamInbox } from './stream-inbox.ts';

function createInbox(bytesMax: number) {
  const flow: string[] = [];
  const inbox = createStreamInbox(
    { pause: () => void flow.push('pause'), resume: () => void flow.push('resume') },
    bytesMax,
  );
  return { inbox, flow };
}

it('stops the socket above its limit, and goes on below half of it', () => {
  const { inbox, flow } = createInbox(100);
  for (let i = 0; i < 3; i++) inbox.push(Buffer.alloc(60, i), 10, 60);
  expect(flow).toEqual(['pause']);
  expect(inbox.waitingBytes).toBe(150);
  expect([inbox.next(), inbox.bytes[0], inbox.start, inbox.end]).toEqual([true, 0, 10, 60]);
  expect([inbox.next(), inbox.next(), inbox.bytes[0]]).toEqual([true, true, 2]);
  expect([flow, inbox.isEmpty, inbox.next()]).toEqual([['pause', 'resume'], true, false]);
});

it('keeps nothing of what was taken while more waits', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const { inbox } = createInbox(1 << 20);
  const pushed = Array.from({ length: 8 }, () => {
    const bytes = Buffer.alloc(1 << 16);
    inbox.push(bytes, 0, bytes.length);
    return new WeakRef(bytes);
  });
  for (let i = 0; i < 5; i++) inbox.next();
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    collect();
    // The fifth is in hand.
    expect(pushed.map((bytes) => bytes.deref() !== undefined)).toEqual([
      false,
      false,
      false,
      false,
      true,
      true,
      true,
      true,
    ]);
  });
});
