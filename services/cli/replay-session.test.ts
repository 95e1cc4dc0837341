import { describe, expect, it } from 'vitest';
import type { CliContext } from './command.ts';
import { buildProgress, progressLine } from './replay-session.ts';

function capture(isTty: boolean): { readonly context: CliContext; readonly text: () => string } {
  let text = '';
  const context = { isTty, err: (part: string) => (text += part) } as unknown as CliContext;
  return { context, text: () => text };
}

describe('the progress of a replay', () => {
  it('is a bar that is drawn again in its place on a terminal', () => {
    const { context, text } = capture(true);
    const line = progressLine(context, 'public.orders');
    const show = buildProgress(line, Date.now());
    show({ table: 't', into: 'i', done: 0n, total: 200n, batches: 0 });
    show({ table: 't', into: 'i', done: 100n, total: 200n, batches: 3 });
    line.end();
    const [, first, second] = text().split('\r');
    expect(first).toContain(`public.orders  [${'-'.repeat(30)}] 0%  0 of 200 events, 0 batches`);
    expect(second).toContain(`[${'#'.repeat(15)}${'-'.repeat(15)}] 50%  100 of 200 events, 3 batches, about`);
    expect(text().endsWith('\n')).toBe(true);
  });

  it('is never more than a line now and then elsewhere', () => {
    const { context, text } = capture(false);
    const line = progressLine(context, 'public.orders');
    for (let done = 0; done <= 100; done++) line.show(done / 100, '');
    line.end();
    expect(text()).toBe('');
  });
});
