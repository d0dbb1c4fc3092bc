import type { Mutant } from './mutant.js';

const BUDGET_STATE = 'src/budget/carry.ts';
const POST = 'src/agent-jobs/post-once.ts';
const CLIENT = 'src/agent-jobs/agent-jobs-client.ts';
const SEND = 'src/activities/send-follow-up.ts';
const FOLLOW_UP = 'src/workflows/follow-up-port.ts';
const LOOK = 'src/follow-up/look.ts';

const AT_MOST_ONCE = 'test/agent-jobs/at-most-once.test.ts';
const TIME_SKIPPED = 'test/workflows/follow-up.time-skipping.long.test.ts';
const WATCHES = 'test/workflows/watch-job.time-skipping.long.test.ts';

/** Mistakes that somebody could make in good faith. The named test must catch each. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a lost answer is retried',
    what: 'a POST whose connection breaks after it has started is sent again',
    edits: [
      {
        file: POST,
        find: `  if (attempt.started) return { kind: 'unanswered', error };`,
        replace: `  if (attempt.started) {
    if ('isSecond' in request) return { kind: 'unanswered', error };
    return postOnce(Object.assign({ isSecond: true }, request));
  }`,
      },
    ],
    test: {
      file: 'test/agent-jobs/send-outcomes.test.ts',
      name: "over plain TCP, a message to a peer that 'reads all, resets' is 'unknown'",
    },
  },
  {
    name: 'connections are reused',
    what: 'messages share a keep-alive connection',
    edits: [
      {
        file: POST,
        find: `class RefusedError extends Error {`,
        replace: `const kept: Record<string, Client> = {};

class RefusedError extends Error {`,
      },
      {
        file: POST,
        find: `  const client = new Client(request.origin, {
    connect: connection.connect,
    pipelining: 0,
    maxResponseSize: request.maxResponseBytes,
    // The total deadline covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  });`,
        replace: `  const client = (kept[request.origin] ??= new Client(request.origin, { pipelining: 1 }));`,
      },
      { file: POST, find: `  void client.destroy().catch(() => undefined);\n`, replace: '' },
    ],
    test: {
      file: AT_MOST_ONCE,
      name: 'over plain TCP none of 200 messages fails if the peer closes every connection after its answer',
    },
  },
  {
    name: 'redirects are followed',
    what: 'the same POST goes to the Location of an answer, as fetch does for 307 and 308',
    edits: [
      {
        file: POST,
        find: `  if (attempt.answer) return { kind: 'answered', answer: attempt.answer, error };`,
        replace: `  const location = attempt.answer?.headers['location'];
  if (typeof location === 'string') {
    const { origin, pathname } = new URL(location, request.origin);
    return postOnce({ ...request, origin, path: pathname });
  }
  if (attempt.answer) return { kind: 'answered', answer: attempt.answer, error };`,
      },
    ],
    test: { file: AT_MOST_ONCE, name: 'a 307 is never followed, either for a message or for a read' },
  },
  {
    name: 'an error is passed on as the cause',
    what: 'the error of the HTTP library, with what the service wrote, enters the history with the outcome',
    edits: [
      {
        file: CLIENT,
        find: `          outcome: 'unknown',`,
        replace: `          outcome: 'unknown',
          ...{ cause: result.error },`,
      },
    ],
    test: {
      file: 'test/agent-jobs/secrets.test.ts',
      name: 'a parser error shows nothing of what the peer wrote',
    },
  },
  {
    name: 'a slot stays free after its grant',
    what: 'a slot counts only once its send has settled',
    edits: [
      {
        file: 'src/budget/slots.ts',
        find: `state.grants.filter(({ outcome }) => outcome !== 'notSent').map((grant) => heldFromMs(grant) + heldMs)`,
        replace: `state.grants.filter(({ outcome }) => outcome !== undefined && outcome !== 'notSent').map((grant) => heldFromMs(grant) + heldMs)`,
      },
    ],
    test: {
      file: 'test/budget/windows.property.long.test.ts',
      name: 'no rolling window of the service ever holds more messages than the limit, whatever is lost, late or repeated',
    },
  },
  {
    name: 'a slot is held from its grant',
    what: 'the window of a slot begins when it is granted, and not when the service has answered',
    edits: [
      {
        file: 'src/budget/settle.ts',
        find: `grant.settledAtMs = Math.max(grant.grantedAtMs, nowMs - agoMs);`,
        replace: `grant.settledAtMs = grant.grantedAtMs;`,
      },
    ],
    test: {
      file: 'test/budget/windows.property.long.test.ts',
      name: 'no rolling window of the service ever holds more messages than the limit, whatever is lost, late or repeated',
    },
  },
  {
    name: 'every end of a send is awaited while slots are free',
    what: 'each send of a burst costs its budget a signal and a task',
    edits: [
      {
        file: 'src/budget/line.ts',
        find: ` - inFlight.filter(({ isAwaited }) => isAwaited).length;`,
        replace: ';',
      },
    ],
    test: {
      file: 'test/budget/protocol.test.ts',
      name: 'the end of a send is awaited as often as slots are free for sends that may not start before',
    },
  },
  {
    name: 'no end of a send is awaited before a short window is over',
    what: 'a slot stays idle until a report comes along',
    edits: [
      {
        file: 'src/budget/line.ts',
        find: `if (state.pause || (heldMs < toldWithinMs && wanted > 0))`,
        replace: `if (state.pause || (heldMs < 0 && toldWithinMs > 0))`,
      },
    ],
    test: {
      file: 'test/budget/protocol.test.ts',
      name: 'the end of a send is awaited by those who wait for a slot to end if the window is over before the end is told anyway',
    },
  },
  {
    name: 'a slot that is granted ahead is taken at once',
    what: 'the first in line gets the slot after its own if somebody behind it was granted a later one',
    edits: [
      {
        file: 'src/budget/slots.ts',
        find: `    ...startsAhead(state, nowMs).map((atMs): [number, -1] => [atMs, -1]),\n`,
        replace: '',
      },
    ],
    test: {
      file: 'test/budget/queue.test.ts',
      name: 'a slot that is about to end is not lost to the first in line if others behind it are granted later slots first',
    },
  },
  {
    name: 'a slot that is needed later is given away',
    what: 'a send gets a slot that is free now, although another send was granted it from a later time on',
    edits: [
      {
        file: 'src/budget/slots.ts',
        find: `    if (freeThen <= ahead) break;
    earliestMs = atMs;`,
        replace: `    if (freeThen > ahead) earliestMs = atMs;`,
      },
    ],
    test: {
      file: 'test/budget/pace.test.ts',
      name: 'after the service has refused a message a send that was granted ahead at a distance keeps its slot, even if that pace ends before it starts',
    },
  },
  {
    name: 'a new run remembers no send',
    what: 'continue-as-new carries slots, turns and queue, but not what was granted to whom',
    edits: [{ file: BUDGET_STATE, find: `    memory: encodeMemory(state.memory, atMs),`, replace: `    memory: '',` }],
    test: {
      file: 'test/budget/protocol.test.ts',
      name: 'the memory of a budget survives JSON whole',
    },
  },
  {
    name: 'Retry-After is ignored',
    what: 'a pause after a 429 lasts as long as the budget’s own backoff',
    edits: [
      {
        file: 'src/budget/pause.ts',
        find: `const backoffMs = retryAfterMs ?? backoffOf(`,
        replace: `const backoffMs = backoffOf(`,
      },
    ],
    test: { file: 'test/budget/queue.test.ts', name: 'a pause honours Retry-After' },
  },
  {
    name: 'the budget takes the time from an ask',
    what: 'slots end by the time in the ask, which comes from the worker, and not by the workflow’s time',
    edits: [
      {
        file: 'src/budget/budget.ts',
        find: `    const nowMs = this.#advance(timeMs);
    this.#take(nowMs, words);
    const check`,
        replace: `    const nowMs = this.#advance(Math.max(timeMs, ...requests.map(({ attemptScheduledAtMs }) => attemptScheduledAtMs)));
    this.#take(nowMs, words);
    const check`,
      },
    ],
    test: { file: 'test/budget/slots.test.ts', name: 'the budget does not take the time from an ask' },
  },
  {
    name: 'a send does not wait for its slot',
    what: 'a message that was granted ahead leaves immediately',
    edits: [
      {
        file: SEND,
        find: `      sendAfterMs === undefined ? undefined : delay(sendAfterMs + 1),\n`,
        replace: '',
      },
    ],
    test: {
      file: 'test/activities/send-follow-up.test.ts',
      name: 'a message that was granted ahead leaves when its slot begins, and not before',
    },
  },
  {
    name: 'every attempt has the same token',
    what: 'an attempt after one that died is granted the same slot again, as with three attempts and no ledger',
    edits: [
      {
        file: SEND,
        find: `      token: randomUUID(),`,
        replace: '      token: `${info.workflowExecution.workflowId} ${sendNumber}`,',
      },
    ],
    test: {
      file: TIME_SKIPPED,
      name: 'a follow-up, with time skipped, whose send is not proven is never sent again if the worker died between grant and settle, whether it was delivered or not',
    },
  },
  {
    name: 'a new run of the budget begins empty',
    what: 'continue-as-new without the state',
    edits: [
      {
        file: 'src/workflows/project-budget.ts',
        find: `continueAsNew<typeof projectBudget>({ projectId, settings }, carryState(run.budget.state));`,
        replace: `continueAsNew<typeof projectBudget>({ projectId, settings });`,
      },
    ],
    test: {
      file: 'test/workflows/lowered-limits.long.test.ts',
      name: 'a budget that continues as new all the time grants every ask once, whichever run it reaches',
    },
    rebuilds: true,
  },
  {
    name: 'a task leaves no event',
    what: 'a budget that another worker takes over reads old signals as if they had just arrived',
    edits: [
      {
        file: 'src/workflows/project-budget.ts',
        find: `    upsertMemo({ lastChangeAt: new Date(Date.now()).toISOString() });`,
        replace: `    void upsertMemo;`,
      },
    ],
    test: {
      file: 'test/workflows/taken-over.long.test.ts',
      name: 'a budget that one worker after another takes over knows when each send ended',
    },
    rebuilds: true,
  },
  {
    name: 'a budget treats every report as one whose time does not matter',
    what: 'a settle leaves no event, and a budget that another worker takes over reads it as if it had just arrived',
    edits: [
      { file: 'src/budget/budget.ts', find: `&& words.every(isEnd);`, replace: `&& words.every(() => true || isEnd);` },
    ],
    test: {
      file: 'test/workflows/taken-over.long.test.ts',
      name: 'a budget that one worker after another takes over knows when each send ended',
    },
    rebuilds: true,
  },
  {
    name: 'a budget ends a run at any moment',
    what: 'an invited follow-up finds a budget that continues as new, and its slot is lost for that time',
    edits: [
      {
        file: 'src/workflows/project-budget.ts',
        find: `(!this.#events.hasAnsweredUpdate && this.#isQuiet()) ||`,
        replace: `!this.#events.hasAnsweredUpdate ||`,
      },
    ],
    test: {
      file: 'test/workflows/lowered-limits.long.test.ts',
      name: 'a budget that continues as new all the time ends no run while anybody is invited or awaits the end of a send, or is due to be invited within a second',
    },
    rebuilds: true,
  },
  {
    name: 'a budget takes all of a report or nothing',
    what: 'one invalid entry loses the entries of other follow-ups in the same signal',
    edits: [
      {
        file: 'src/contract/protocol.ts',
        find: `    else issues.push(...word.issues);`,
        replace: `    else return { words: [], issues: word.issues };`,
      },
    ],
    test: {
      file: 'test/activities/budget-client.long.test.ts',
      name: 'entries that come together share one signal, each is confirmed, and a bad one loses no other',
    },
    rebuilds: true,
  },
  {
    name: 'a plain Error is thrown in a workflow',
    what: 'an error that should end the follow-up fails its workflow task, again and again',
    edits: [
      {
        file: 'src/workflows/failures.ts',
        find: `  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });`,
        replace: `  return Object.assign(new Error(message), { type, details: [details] }) as unknown as ApplicationFailure;`,
      },
    ],
    test: {
      file: 'test/workflows/first-task.test.ts',
      name: 'invalid input ends the follow-up in its first workflow task, which does not fail',
    },
    rebuilds: true,
  },
  {
    name: 'the send has a heartbeat timeout',
    what: 'Temporal gives up a POST that takes longer than the heartbeat timeout while it is under way',
    edits: [
      {
        file: FOLLOW_UP,
        find: `startToCloseTimeout: startToCloseMs,`,
        replace: `startToCloseTimeout: startToCloseMs, heartbeatTimeout: '10s',`,
      },
    ],
    test: {
      file: TIME_SKIPPED,
      name: 'a follow-up, with time skipped, on its way to the result is sent, not in doubt, when the service answers slowly',
    },
    rebuilds: true,
  },
  {
    name: 'a send has three attempts',
    what: 'Temporal gives up after three attempts, and the follow-up ends without saying whether it was delivered',
    edits: [
      {
        file: FOLLOW_UP,
        find: `  startToCloseTimeout: '75s',
  retry: { initialInterval: '1s', maximumInterval: '60s' },`,
        replace: `  startToCloseTimeout: '75s',
  retry: { initialInterval: '1s', maximumInterval: '60s', maximumAttempts: 3 },`,
      },
    ],
    test: {
      file: TIME_SKIPPED,
      name: 'a follow-up, with time skipped, on its way to the result survives workers that die before they ask',
    },
    rebuilds: true,
  },
  {
    name: 'a watch ends at every look',
    what: 'looks that show nothing new reach the workflow, and each costs events',
    edits: [
      {
        file: LOOK,
        find: `  return (Object.keys(now) as (keyof Shown)[]).some((field) => now[field] !== since[field]);`,
        replace: `    return now !== since;`,
      },
    ],
    test: { file: WATCHES, name: 'a watch, with time skipped, costs no events for its looks: 30 looks' },
    rebuilds: true,
  },
  {
    name: 'a watch has no end of its own',
    what: 'the settle time and the timeout of the job pass, and the watch continues to look',
    edits: [{ file: LOOK, find: `const isOver = nowMs >= untilMs ||`, replace: `const isOver =` }],
    test: {
      file: 'test/follow-up/look.test.ts',
      name: 'a look at the end of the watch’s time ends it, although nothing is new',
    },
  },
  {
    name: 'a watch continues beside the next one',
    what: 'an extra look shows something new, and the watch that waits for that does not end',
    edits: [
      {
        file: 'src/follow-up/watch.ts',
        find: `const { looks } = yield* port.stopWatch();`,
        replace: `const looks = 0;`,
      },
    ],
    test: {
      file: WATCHES,
      name: 'a watch, with time skipped, ends when an extra look shows something new, and is followed by another watch',
    },
    rebuilds: true,
  },
  {
    name: 'a lost call loses what it took along',
    what: 'what the budget is told goes with an ask that does not arrive, and nobody tells it again',
    edits: [
      {
        file: 'src/activities/coalescer.ts',
        find: `      if (taken.length > 0) void callWith(name, taken.splice(0));`,
        replace: '',
      },
    ],
    test: {
      file: 'test/activities/coalescer.test.ts',
      name: 'another call of the same group that fails lets what it took along go by a call of its own at once',
    },
  },
  {
    name: 'a restored budget does not know what came with asks',
    what: 'a budget is restored from its history without what the asks took along, and takes sends for unsettled',
    edits: [
      {
        file: 'src/client/budget-ledger.ts',
        find: `        const { words } = readReport(args[1]);`,
        replace: `        const { words } = readReport([]);`,
      },
    ],
    test: {
      file: 'test/activities/budget-client.long.test.ts',
      name: 'an entry that is not urgent travels with the next ask, is heard before it, and can be read from the history',
    },
  },
  {
    name: 'a follow-up does not wait until its budget knows its end',
    what: 'a follow-up ends while its budget cannot be reached, and the turn of its job does not end',
    edits: [
      {
        file: FOLLOW_UP,
        find: `tellBudget.executeWithOptions({ summary: \`tell the budget: \${word.kind}\` }, [{ projectId, ...word }])`,
        replace: `Promise.race([true, tellBudget({ projectId, ...word })])`,
      },
    ],
    test: { file: TIME_SKIPPED, name: 'a follow-up, with time skipped, does not end before it has told its budget' },
    rebuilds: true,
  },
  {
    name: 'a word for a reset budget is dropped',
    what: 'an outcome that reaches a budget which has just been reset is not told to the run that takes its place',
    edits: [
      {
        file: 'src/activities/budget-client.ts',
        find: `        if (!(await isMended(projectId))) return words.map(() => false);`,
        replace: `        return words.map(() => false);`,
      },
    ],
    test: {
      file: 'test/activities/budget-client.long.test.ts',
      name: 'an entry for a budget that was reset is heard by the run that takes its place',
    },
  },
  {
    name: 'an old list is believed',
    what: 'the run that a reset replaced is looked for in a list of runs that may be out of date',
    edits: [
      {
        file: 'src/client/budget-ledger.ts',
        find: `    if (own) return runs.filter(({ startTime }) => startTime < own.startTime);`,
        replace: `    if (runs.length > 0) return runs.filter((run) => run !== own);`,
      },
    ],
    test: {
      file: 'test/client/budget-restore.long.test.ts',
      name: 'the sends of a run that a reset replaced before Temporal listed it are not forgotten',
    },
  },
];
