import { setHandler } from '@temporalio/workflow';
import type { BudgetLoop } from '../budget/loop.js';
import { limitOf } from '../budget/slots.js';
import { takenBy } from '../budget/take.js';
import { defined } from '../common/index.js';
import {
  type BudgetStatus,
  parseInput,
  pauseInputSchema,
  pauseUpdate,
  resumeUpdate,
  setLimitInputSchema,
  setLimitUpdate,
  takeInputSchema,
  takeUpdate,
} from '../contract/index.js';
import { accept, invalidInput } from './failures.js';

/** Registers the handlers of operators' updates. All but `take` return the status. */
export function handleUpdates(loop: BudgetLoop, status: (nowMs: number) => BudgetStatus): void {
  const { budget } = loop;
  const parseLimit = (input: unknown) => accept(parseInput(setLimitInputSchema, input ?? {}));
  const parsePause = (input: unknown) => accept(parseInput(pauseInputSchema, input ?? {}));
  const apply = (change: (nowMs: number) => void) =>
    loop.change((nowMs) => {
      change(nowMs);
      return status(nowMs);
    });
  const setLimit = (input: unknown) => {
    const { window: windowMs, ...other } = parseLimit(input);
    return apply((nowMs) => budget.setLimit(nowMs, defined({ ...other, windowMs })));
  };
  setHandler(setLimitUpdate, setLimit, {
    description: 'Changes limit, window or reserve; missing ones stay unchanged',
    validator: (input: unknown) => {
      const { settings, maxLimit } = budget.state;
      const given = parseLimit(input);
      const { limit = limitOf(budget.state), reserve = settings.reserve } = given;
      const rule = `must be at most ${maxLimit}, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers (given ${limit})`;
      if (limit > maxLimit) throw invalidInput([{ field: 'limit', message: rule }]);
      // The worker's maximum may since have dropped below the current limit.
      const isGiven = given.limit !== undefined || given.reserve !== undefined;
      if (isGiven && reserve > 0 && reserve >= limit) {
        const below = `must be below limit (limit ${limit}, reserve ${reserve})`;
        throw invalidInput([{ field: 'reserve', message: below }]);
      }
    },
  });
  const pause = (input: unknown) => {
    const { for: forMs, note } = parsePause(input);
    return apply((nowMs) =>
      budget.pause(nowMs, defined({ untilMs: forMs === undefined ? undefined : nowMs + forMs, note })),
    );
  };
  setHandler(pauseUpdate, pause, {
    description: 'Stops sending, for a time or until resumed',
    validator: (input: unknown) => void parsePause(input),
  });
  const parseTake = (input: unknown) => accept(parseInput(takeInputSchema, input ?? {}));
  setHandler(takeUpdate, (input: unknown) => loop.change((nowMs) => budget.take(nowMs, parseTake(input))), {
    description: 'Counts slots as used by other software: all or none',
    validator: (input: unknown) => {
      const { count, key } = parseTake(input);
      const taken = takenBy(budget.state, key);
      if (taken === count) return;
      const limit = limitOf(budget.state);
      if (taken === undefined && count <= limit) return;
      const rule =
        taken === undefined ? `must be at most ${limit}, the limit` : `must be ${taken}, which the key took before`;
      throw invalidInput([{ field: 'count', message: `${rule} (given ${count})` }]);
    },
  });
  setHandler(resumeUpdate, () => apply((nowMs) => budget.resume(nowMs)), { description: 'Ends a pause' });
}
