import { expect, it } from 'vitest';
import { describePlan, planFaults, type PlanLimits } from './fault-plan.ts';
import { createFaultWorkload, FAULT_SCHEMA_SQL } from './fault-workload.ts';

const limits: PlanLimits = { logs: ['embedded', 'kafka'], lakes: ['file', 's3'], faultsMax: 6 };

it('draws the same plan and workload from the same seed, and others from others', () => {
  expect(planFaults(7, limits)).toEqual(planFaults(7, limits));
  const plans = new Set(Array.from({ length: 50 }, (_, seed) => describePlan(planFaults(seed, limits))));
  expect(plans.size).toBe(50);
  const statements = (seed: number): string[] => {
    const workload = createFaultWorkload(seed, 0);
    return Array.from({ length: 40 }, () => workload.next().join(';'));
  };
  expect(statements(3)).toEqual(statements(3));
  expect(statements(3)).not.toEqual(statements(4));
});

it('strikes only what is there, and every kind comes round', () => {
  const embedded = Array.from({ length: 400 }, (_, seed) =>
    planFaults(seed, { logs: ['embedded'], lakes: ['file'], faultsMax: 6 }),
  );
  const faults = embedded.flatMap((plan) => plan.faults.map(({ fault }) => fault));
  expect(faults.some((fault) => fault.kind === 'kill-server' && fault.server !== 'postgres')).toBe(false);
  const all = Array.from({ length: 400 }, (_, seed) => planFaults(seed, limits)).flatMap((plan) => plan.faults);
  expect(new Set(all.map(({ fault }) => fault.kind)).size).toBe(12);
});

it('writes every kind of change', () => {
  const workload = createFaultWorkload(1, 0);
  const text = Array.from({ length: 2_000 }, () => workload.next().join(';')).join('\n');
  for (const kind of [
    'insert into wide',
    'update wide set n',
    'delete from',
    'set id =',
    'truncate',
    'rollback to savepoint',
    'add column',
    'drop column',
    'create table',
    'add value',
    'update moved set day',
  ])
    expect(text).toContain(kind);
  expect(FAULT_SCHEMA_SQL).toContain('partition by range');
});
