import { expect, it } from 'vitest';

import { benchGate, formatGateBench } from './gate.ts';

it('runs every part of the gate bench, and the row rule does find the bad events', () => {
  const result = benchGate({ events: 3000, rounds: 1 });
  expect(result.violations).toBe(1);
  expect(formatGateBench(result)).toContain('decode + gate');
});
