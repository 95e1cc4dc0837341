import { expect, it } from 'vitest';
import { parseTimelineHistory } from './timeline.ts';

it('reads where each timeline was left', () => {
  const text = `1\t0/3000060\tno recovery target specified\n\n2\t16/B374D848\tbefore 2026-01-01 00:00:00+00\n# a remark\n`;
  expect(parseTimelineHistory(text)).toEqual([
    { timeline: 1, leftAt: 0x3000060n },
    { timeline: 2, leftAt: 0x16b374d848n },
  ]);
  expect(parseTimelineHistory('')).toEqual([]);
});
