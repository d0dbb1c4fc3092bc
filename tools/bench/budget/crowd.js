import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { examine, Verdict } from './check.js';
import { startBudgetStack } from './stack.js';

const LIMIT = 100;
const LONGEST_MS = 90_000;
const PROJECT = 'crowd';

/** After the last start, the first 100 messages may take this long. */
const LONGEST_BURST_S = 15;

/**
 * Starts follow-ups of one project at once. Each must get its place within 90 s, and none may fail.
 *
 * @param {number} options.count how many
 */
export async function crowd({ env, count: followUps }) {
  const verdict = new Verdict();
  const stack = await startBudgetStack({
    env,
    settings: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '1h' },
    simulator: { limiter: { kind: 'sliding', limit: LIMIT, windowMs: 3_600_000 } },
  });
  try {
    const startedAtMs = performance.now();
    const inputs = Array.from({ length: followUps }, (_, index) => ({ projectId: PROJECT, jobId: `job-${index}` }));
    const lastStartAt = stack.start(inputs).then(() => Date.now());
    let placed = 0;
    let placedAfterS;
    while (placed < followUps && performance.now() - startedAtMs < 2 * LONGEST_MS) {
      await delay(500);
      const status = await stack.followUps
        .budget(PROJECT)
        .status()
        .catch(() => undefined);
      if (status) placed = status.waitingTotal + status.lastSends.length;
      if (placed >= followUps) placedAfterS = (performance.now() - startedAtMs) / 1_000;
    }
    const burstS = (hundredthAtMs(stack) - (await lastStartAt)) / 1_000;
    const failed = await count(
      stack.client,
      `TaskQueue = 'budget-bench' AND ExecutionStatus IN ('Failed','Terminated','TimedOut')`,
    );
    const project = examine({ ledger: stack.simulator.ledger, projectId: PROJECT, limit: LIMIT, windowMs: 3_600_000 });
    verdict.expect(
      placedAfterS !== undefined && placedAfterS <= LONGEST_MS / 1_000,
      `placed ${placed} after ${placedAfterS} s`,
    );
    verdict.expect(failed === 0, `${failed} failed`);
    verdict.expect(project.sent === LIMIT, `${project.sent} sent`);
    verdict.expect(project.refused + project.doubled === 0, `${project.refused} refused, ${project.doubled} doubled`);
    verdict.expect(burstS <= LONGEST_BURST_S, `the first ${LIMIT} were out ${burstS} s after the last start`);
    return { figures: { placed, placedAfterS, burstS, failed, sent: project.sent }, failures: verdict.failures };
  } finally {
    await stack.stop();
  }
}

function hundredthAtMs({ simulator }) {
  return simulator.ledger.filter(({ projectId }) => projectId === PROJECT)[LIMIT - 1]?.receivedAtMs ?? Infinity;
}

async function count(client, query) {
  const { count: counted } = await client.workflow.count(query);
  return counted;
}
