import { expect, test } from 'vitest';
import type { Budget } from '../../src/budget/index.js';
import { describeBudget } from '../../src/budget/details.js';
import { acquire, newBudget, settle, spend, T0 } from './support.js';

const lines = (budget: Budget, nowMs: number) => describeBudget(budget.status(nowMs), nowMs).split('\n');
const shown = (budget: Budget, nowMs: number) => describeBudget(budget.status(nowMs), nowMs);

test('a budget shows its slots, its queue and its last sends as lists, with times in UTC', () => {
  const budget = newBudget({ limit: 2, reserve: 1 });
  spend(budget, T0, 'a');
  acquire(budget, T0 + 1_000, 'b');
  settle(budget, T0 + 2_000, 'b', { outcome: 'unknown' });
  acquire(budget, T0 + 3_000, 'c');
  acquire(budget, T0 + 4_000, 'd', { lane: 'batch' });
  acquire(budget, T0 + 5_000, 'e', { jobId: 'job-b' });
  const text = shown(budget, T0 + 6_000);
  expect(text).not.toContain('|');
  expect(text).toMatch(/^\*\*all slots are used until 01:00:02 UTC\*\*\n\n- slots: 2 of 2 used in 1 h\n/);
  expect(text).toContain('\n- kept from the batch lane: 1\n');
  expect(text).toContain('\n- waiting: 3, 1 of them in the batch lane, 1 for their job\n');
  expect(text).toMatch(/\n- position 1: `job-c`, interactive lane, expected 01:00:0\d UTC\n/);
  expect(text).toMatch(/\n- position 2: `job-d`, batch lane, expected 0\d:0\d:\d\d UTC\n/);
  expect(text).toContain('\n- job busy: `job-b`, interactive lane\n');
  expect(text).toContain(
    '\n- 00:00:01 UTC: **not known** whether it was delivered, `b`\n- 00:00:00 UTC: delivered, `a`\n',
  );
  expect(text).toMatch(/\n\n_As of 2026-01-01 00:00:06 UTC\._$/);
});

test('a budget that can send says how many slots are free, and gives an operator nothing to do', () => {
  const budget = newBudget();
  spend(budget, T0, 'a');
  expect(lines(budget, T0 + 1)[0]).toBe('**sends: 2 of 3 slots are free**');
  expect(shown(budget, T0 + 1)).not.toContain('to do');
});

test('a budget that cannot send says why, until when, and what to do', () => {
  const paused = newBudget();
  paused.pause(T0, { forMs: 60_000, note: 'freeze' });
  expect(lines(paused, T0)[0]).toBe('**paused: by an operator since 00:00:00 UTC until 00:01:00 UTC (`freeze`)**');
  expect(lines(paused, T0)).toContain('- to do: `follow-up budget resume p`, if the pause is no longer wanted');

  const limited = newBudget();
  acquire(limited, T0, 'a');
  settle(limited, T0, 'a', { outcome: 'limited' });
  expect(lines(limited, T0)[0]).toBe(
    '**paused: the service refuses more messages (429) since 00:00:00 UTC until 00:01:00 UTC**',
  );
  expect(lines(limited, T0)).toContain(
    '- to do: nothing: it continues by itself. To try at once: `follow-up budget resume p`',
  );

  const refused = newBudget();
  refused.hear(T0, [{ kind: 'keyRead', isRefused: true }]);
  expect(lines(refused, T0)).toContain(
    '- to do: give the workers a valid key for the project, then `follow-up budget resume p`',
  );

  const none = newBudget({ limit: 0 });
  expect(lines(none, T0)[0]).toBe('**sends nothing: its limit is 0**');
  expect(lines(none, T0)).toContain('- to do: `follow-up budget set p --limit 100`');

  const lowered = newBudget();
  spend(lowered, T0, 'a', 'b', 'c');
  lowered.setLimit(T0, { limit: 1 });
  expect(lines(lowered, T0)[0]).toBe('**sends nothing until 2 slots have ended: its limit was lowered**');
});

test('a status with only its first 10 waiters gives the same text as a longer one', () => {
  const budget = newBudget({ limit: 20 });
  for (let index = 0; index < 40; index++) acquire(budget, T0 + index, `w${index}`);
  const nowMs = T0 + 1_000;
  expect(describeBudget(budget.status(nowMs, { most: 10 }), nowMs)).toBe(shown(budget, nowMs));
});
