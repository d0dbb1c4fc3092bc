import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Budget, carryState } from '../../src/budget/index.js';
import { sendOutcomes } from '../../src/contract/index.js';
import type { AcquireRequest, BudgetWord } from '../../src/contract/protocol.js';
import { ask, newBudget, T0, WINDOW_MS } from './support.js';

const step = fc.record({
  afterMs: fc.oneof(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 1_200_000 })),
  who: fc.integer({ min: 0, max: 11 }),
  what: fc.constantFrom(
    'ask',
    'ask',
    'ask',
    'hold',
    'withdraw',
    'repeat',
    'settle',
    'settle',
    'finish',
    'gone',
    'pause',
    'resume',
    'limit',
    'key',
  ),
  outcome: fc.constantFrom(...sendOutcomes),
  along: fc.array(fc.record({ whose: fc.integer({ min: 0, max: 11 }), isEnd: fc.boolean() }), { maxLength: 2 }),
});

/** The state that decides who may send. Invitations, checks and overtakings are left out: no history tells them. */
function known(budget: Budget) {
  const {
    waiters,
    pause,
    turns,
    overtakenCount: _overtaken,
    answersInMs: _answers,
    ...state
  } = carryState(budget.state);
  return {
    ...state,
    pause: pause?.reason,
    turns: turns.map(([name, job]) => [name, job]),
    waiters: waiters.map(([name, job, flags, number]) => [name, job, flags, number]),
  };
}

test('a state rebuilt from the answers of another budget knows what that budget knew', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 120 }), fc.integer({ min: 1, max: 4 }), (steps, limit) => {
      const live = newBudget({ limit });
      const entered = newBudget({ limit });
      for (const { state } of [live, entered]) state.ledgerSinceMs = T0;
      const asked = new Map<number, AcquireRequest>();
      const sendNumbers = new Map<number, number>();
      const asks = new Map<number, number>();
      let nowMs = T0;
      for (const { afterMs, who, what, outcome, along } of steps) {
        nowMs += afterMs;
        const name = `follow-up/p/job-${who % 5}/${who}`;
        const sendNumber = sendNumbers.get(who) ?? 1;
        const leave = { workflowId: name, jobId: `job-${who % 5}`, sendNumber };
        if (what === 'ask' || what === 'hold' || what === 'withdraw' || what === 'repeat') {
          const before = asked.get(who);
          const token = what === 'repeat' && before ? before.token : `token-${who}-${nowMs}`;
          const request = ask(name, nowMs, {
            jobId: leave.jobId,
            lane: who < 6 ? 'interactive' : 'batch',
            sendNumber,
            token,
            hold: what === 'hold',
            ...(what === 'withdraw' && { withdraw: true }),
            ...(who % 3 > 0 && { askNumber: asks.set(who, (asks.get(who) ?? 0) + 1).get(who) ?? 1 }),
            ...(who % 4 === 1 && { provenNotSent: true }),
            ...(who === 3 && { grantedBefore: 'surely' }),
            ...(who === 7 && { ledgerSinceMs: T0 - 1 }),
            ceiling: { limit: 3 + (who % 2), windowMs: WINDOW_MS },
          });
          asked.set(who, request);
          const words = along.map(({ whose, isEnd }): BudgetWord => {
            const other = {
              workflowId: `follow-up/p/job-${whose % 5}/${whose}`,
              sendNumber: sendNumbers.get(whose) ?? 1,
            };
            if (isEnd) return { kind: 'finish', ...other, jobId: `job-${whose % 5}`, outcome };
            return { kind: 'settle', ...other, token: asked.get(whose)?.token ?? 'none', outcome };
          });
          const [answers] = live.acquireAll(nowMs, [request], words);
          entered.enterAnswers(nowMs, [request], answers, words);
          const [answer] = answers;
          const isOver = answer?.kind === 'done' && ['notSent', 'limited', 'unauthorized'].includes(answer.outcome);
          if (isOver) sendNumbers.set(who, sendNumber + 1);
        }
        for (const budget of [live, entered]) {
          const token = asked.get(who)?.token ?? 'none';
          if (what === 'settle') budget.hear(nowMs, [{ kind: 'settle', workflowId: name, sendNumber, token, outcome }]);
          if (what === 'finish') budget.hear(nowMs, [{ kind: 'finish', ...leave, ...(who % 2 === 0 && { outcome }) }]);
          if (what === 'gone') budget.gone(nowMs, name);
          if (what === 'key') budget.hear(nowMs, [{ kind: 'keyRead', isRefused: who % 3 > 0 }]);
          if (what === 'pause') budget.pause(nowMs, { forMs: 60_000 });
          if (what === 'resume') budget.resume(nowMs);
          if (what === 'limit') budget.setLimit(nowMs, { limit: limit + (who % 3) });
        }
        expect(known(entered)).toEqual(known(live));
      }
    }),
    { numRuns: 100 },
  );
});
