import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createViteServer } from 'vitest/node';
import { runSeed } from './seed.js';

/** Rules that can be taken out: a profile that shows it, a file of src, a text that occurs once, and another. */
export const breaks: Record<string, readonly [profile: string, file: string, text: string, instead: string]> = {
  window: ['calm', 'budget/slots', 'fromMs + windowMs + marginMs', 'fromMs + 0.9 * windowMs'],
  unknown: ['network', 'budget/budget', `outcome === 'unknown' ? grant.overAtMs : Math.min`, 'Math.min'],
  count: ['budget-deletions', 'budget/state', 'isCounting: true', 'isCounting: false'],
  reset: ['budget-resets', 'budget/loop', 'this.budget.state.isCounting = true', 'void 0'],
  'sent-at': [
    'budget-deletions',
    'budget/counting',
    'sentAtMs + leaseMs + state.settings.marginMs',
    'sentAtMs - 30_000',
  ],
  'sent-again': [
    'budget-deletions+service',
    'budget/counting',
    `useSlots(state, usedFromMs);\n    showSend(`,
    'showSend(',
  ],
  lease: ['freezes', 'activities/send-message', 'const mayStart = () =>', 'const mayStart = () => true ||'],
  run: ['resets', 'activities/send-message', 'ownRun().runId !== grant.runId', 'false'],
  'read-run': ['resets+refusals', 'activities/index', 'ownRun().runId !== runId', 'false'],
  resend: ['service+network', 'follow-up/reconcile', `=== 'resend' && !doubt.mayHaveResent`, `=== 'resend'`],
  resent: ['service+resets', 'follow-up/deliver', 'doubt.raise({ mayHaveResent: true })', 'doubt.raise()'],
  'not-found': ['service', 'follow-up/judge', 'const NOT_FOUND_MS = 30_000', 'const NOT_FOUND_MS = 0'],
  'by-hand': ['activities', 'follow-up/port', 'sent?.grant === grantName(grant) && isKnown', 'isKnown'],
  doubt: [
    'resets+service+stops',
    'follow-up/step-context',
    'this.#exists = mayHaveSent',
    'this.#exists = false && mayHaveSent',
  ],
  asked: ['reuse+impatient+takeovers', 'follow-up/flow', `error.delivered !== 'no' || this.#slotWait.hasReply`, 'true'],
  replaced: [
    'resets+budget-deletions',
    'budget/sends',
    'mayHaveForgotten(state, ask) ? forgottenSend(ask)',
    'false ? forgottenSend(ask)',
  ],
  latest: ['resets', 'budget/sends', 'isOwn && hadLatestTurn(state, workflowId, latest.grantedAtMs)', 'isOwn'],
  turn: ['calm', 'budget/turns', 'turns[job]?.owner ?? workflowId', 'workflowId'],
  'turned-away': ['crowds', 'budget/budget', 'turnAway(state, ask);', ';'],
  'at-rest': ['calm', 'budget/line', `if (jobIs === 'at-rest') forgetWork(state, job);`, ''],
  'at-work': ['calm', 'budget/line', `jobIs === 'at-work' && !hasToWait`, 'false'],
  stale: ['stale', 'follow-up/judge', 'const STALE_MS = 10_000', 'const STALE_MS = 0'],
  settled: ['stale', 'follow-up/judge', 'const isSettled =', 'const isSettled = true ||'],
  owners: ['stops', 'budget/turns', 'turn.untilMs ??= Math.max(nowMs, overAtMs) + SETTLE_MS', 'void 0'],
  'not-found-again': ['service', 'follow-up/deliver', '!isMissing || !isSoon', '!isSoon'],
  begun: [
    'budget-deletions+network',
    'follow-up/deliver',
    `if (sent.outcome === 'notSent')`,
    `if (sent.outcome !== 'sent')`,
  ],
  silent: [
    'reuse+impatient+network',
    'follow-up/flow',
    `?? 'unknown';\n    if (delivered === 'no')`,
    `?? 'no';\n    if (delivered === 'no')`,
  ],
  wake: ['budget-deletions', 'budget/budget', 'this.#wakeAll(workflowIds.filter(', 'void (workflowIds.filter('],
  body: [
    'firewall',
    'protocol/response-meanings',
    `'unknown', ofRead: 'invalid-body'`,
    `'sent', ofRead: 'invalid-body'`,
  ],
  unclear: ['service', 'protocol/response-meanings', `'unknown',\n  ofRead: 'service'`, `'notSent', ofRead: 'service'`],
  longer: ['firewall', 'budget/refusals', 'DELAY_GROWTH ** (times - 1)', '1'],
  read: ['refusals', 'budget/pauses', 'refusalOf(outcome) ?? ofRead', 'refusalOf(outcome)'],
  pause: ['refusals', 'budget/pace', 'nowMs >= nextGrantAtMs(pace)', 'true'],
  alone: ['firewall', 'budget/refusals', 'const isAlone = earlier !== undefined &&', 'const isAlone = false &&'],
  delayed: ['firewall', 'budget/refusals', 'delayedUntilMs(waiter) > nowMs', 'false'],
  probe: ['firewall', 'budget/grants', `kind === 'due' ? probeOf(line) : line[0]`, 'line[0]'],
  outage: ['outages', 'budget/pace', 'pace.unknownInARow >= OUTAGE_UNKNOWNS', 'false'],
  operator: ['commands', 'budget/grants', 'isCounting || isPausedByOperator(state, nowMs)', 'isCounting'],
  patience: ['impatient', 'follow-up/get-slot', 'if (port.nowMs() < waits.patienceEndsMs) return;', 'return;'],
  'known-turn': ['resets', 'budget/turns', 'Object.assign(turn, { owner: workflowId, runId })', ''],
  backoff: ['clocks', 'follow-up/waits', 'Math.min(this.stretchedMs(longestMs), 500 * 2 ** this.#failuresInARow)', '1'],
  retold: ['retold', 'budget/counting', '!isUnderWay && mayHaveArrived(outcome) &&', '!isUnderWay &&'],
  counted: ['retold', 'budget/sends', 'latest.listedAtMs !== undefined && mayHaveSent && latest', 'false && latest'],
  'ask-again': ['signals', 'follow-up/get-slot', 'const ASK_AGAIN_MS = 21_600_000', 'const ASK_AGAIN_MS = 1e9'],
  'watch-run': ['resets', 'activities/watch-job', 'request.runId !== ownRun().runId', 'false'],
  hold: ['backlog', 'budget/budget', `outcome === 'unknown' ? grant.overAtMs`, 'true ? grant.overAtMs'],
  'book-turn': ['budget-deletions', 'budget/turns', `turn.owner = workflowId;\n    delete turn.runId;`, ''],
  drain: ['network', 'budget/slots', 'overAtMs: nowMs + leaseMs + drainMs', 'overAtMs: nowMs + 100'],
  'turn-kept': ['stops+stale', 'follow-up/flow', 'this.#turnUntilMs === undefined ? {}', 'true ? {}'],
  cancelled: ['stops', 'follow-up/get-slot', '(waits.isCancelled) throw unsent', '(false) throw unsent'],
  'retry-after': ['refusals', 'budget/pace', 'Math.max(retryAfterMs ?? 0, pauseMsOf(', 'Math.max(0, pauseMsOf('],
  'own-retry-after': ['refusals', 'budget/refusals', 'Math.max(retryAfterMs, delayMs)', 'delayMs'],
  undone: ['impatient+takeovers', 'follow-up/flow', `await this.port.nextTask();\n      const turn`, 'const turn'],
  canary: ['calm-batch', 'batch/part', 'if (index >= until) break;', ''],
  share: ['calm-batch', 'batch/part', 'this.#open.size < this.#order.share', 'this.#open.size < this.#order.share + 2'],
  'report-all': ['batch', 'batch/part', 'order.since > this.#order.since', 'false'],
  withdraw: ['batch', 'batch/part-flow', `else await this.#ask(this.#part.positions('waiting'));`, ''],
  'withdraw-reset': [
    'batch',
    'batch/part-flow',
    'if (this.port.wasReset()) await this.#askUntilStarted();\n      else ',
    '',
  ],
  retries: ['batch', 'client/batch-retry', 'attempts.get(indexes[item.index] ?? -1)', 'attempts.get(-1)'],
  parts: ['batch', 'protocol/batch-protocol', 'part: `${part}-${hash}`', 'part: `${part}-uEsrHPkfhD2`'],
  'batch-run': ['batch', 'batch/part-flow', 'reportToBatch(report, this.batchRunId)', 'reportToBatch(report)'],
  missing: ['batch', 'batch/part-flow', 'const START_WITHIN_MS = 60_000', 'const START_WITHIN_MS = 0'],
};

const MAX_SEEDS = 1_500;

/** The file of a rule without the rule. */
export function withoutRule(name: string): { path: string; text: string } {
  const [, file, text = '', instead] = breaks[name] ?? [];
  const path = fileURLToPath(new URL(`../../src/${file}.ts`, import.meta.url));
  const parts = readFileSync(path, 'utf8').split(text);
  if (parts.length !== 2) throw new Error(`${name}: occurs ${parts.length - 1} times in ${file}, not once: ${text}`);
  return { path, text: parts.join(instead) };
}

/** Says in which seed the simulation notices that a rule is missing; `undefined` if it does not. */
export async function findBreak(name: string): Promise<string | undefined> {
  const [profile = ''] = breaks[name] ?? [];
  const { path, text } = withoutRule(name);
  const transform = (_: string, id: string) => (id === path ? text : undefined);
  const vite = await createViteServer({
    ...{ configFile: false, appType: 'custom', logLevel: 'silent', optimizeDeps: { noDiscovery: true } },
    root: fileURLToPath(new URL('../..', import.meta.url)),
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    plugins: [{ name, enforce: 'pre', transform }],
  });
  try {
    const broken = (await vite.ssrLoadModule('/tools/simulation/seed.ts')) as { runSeed: typeof runSeed };
    for (let seed = 1; seed <= MAX_SEEDS; seed++) {
      const [wrong] = (await broken.runSeed(profile, seed)).found;
      // A seed that is wrong anyway shows nothing.
      const isRight = !wrong || (await runSeed(profile, seed)).found.length === 0;
      if (wrong && isRight) return `${wrong.verdict} in seed ${seed} of ${profile}: ${wrong.what}`;
    }
    return undefined;
  } finally {
    await vite.close();
  }
}
