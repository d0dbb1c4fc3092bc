import type { Mutant } from './mutant.js';

const POST = 'src/agent-jobs/post-once.ts';
const CLIENT = 'src/agent-jobs/agent-jobs-client.ts';
const ACTIVITIES = 'src/activities/index.ts';
const FOLLOW_UP = 'src/workflows/follow-up.ts';
const PORT = 'src/workflows/follow-up-port.ts';
const BUDGET = 'src/workflows/project-budget.ts';

const AT_MOST_ONCE = 'test/agent-jobs/at-most-once.test.ts';
const PATHS = 'test/workflows/paths.test.ts';

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
        find: `return { outcome: 'unknown', message };`,
        replace: `return { outcome: 'unknown', message, ...{ cause: result.error } };`,
      },
    ],
    test: {
      file: 'test/agent-jobs/secrets.test.ts',
      name: 'a parser error shows nothing of what the peer wrote',
    },
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
    test: { file: PATHS, name: 'a follow-up fails with InvalidInput' },
    rebuilds: true,
  },
  {
    name: 'a cancel reaches the send',
    what: 'a follow-up that is cancelled while its message is on its way does not wait for the answer',
    edits: [
      {
        file: FOLLOW_UP,
        find: `return await CancellationScope.nonCancellable(() => flow.run());`,
        replace: `return await flow.run();`,
      },
    ],
    test: { file: PATHS, name: 'a follow-up that is cancelled while its message is on its way lets it arrive' },
    rebuilds: true,
  },
  {
    name: 'an answer is taken as it comes',
    what: 'a signal that is typed by hand fails the workflow task, or is taken for a grant',
    edits: [
      {
        file: FOLLOW_UP,
        find: `    if (parsed.ok) flow.hear(parsed.value);`,
        replace: `    void parsed;
    flow.hear(answer as Parameters<FollowUp['hear']>[0]);`,
      },
    ],
    test: {
      file: 'test/operators/follow-up.test.ts',
      name: 'a waiting follow-up skips nonsense, and refuses invalid updates',
    },
    rebuilds: true,
  },
  {
    name: 'a report is taken as it comes',
    what: 'what is typed by hand counts as the service’s answer to a message',
    edits: [
      {
        file: PORT,
        find: `return readSendResult(await send.executeWithOptions({ summary }, [order]), order);`,
        replace: `return (await send.executeWithOptions({ summary }, [order])) ?? readSendResult(undefined, order);`,
      },
    ],
    test: {
      file: PATHS,
      name: 'a follow-up whose send is completed by hand does not take that for the service’s answer',
    },
    rebuilds: true,
  },
  {
    name: 'a grant is for every run',
    what: 'a run that was reset sends with the grant of the run before',
    edits: [
      {
        file: ACTIVITIES,
        find: `      if (ownRun().runId !== grant.runId) return result('foreign', 'the send was granted to another run');
`,
        replace: ``,
      },
    ],
    test: { file: PATHS, name: 'a follow-up that is reset after its grant does not use the grant again' },
  },
  {
    name: 'a stopped budget starts by itself',
    what: 'the next ask starts a budget that somebody has stopped',
    edits: [
      {
        file: 'src/contract/protocol.ts',
        find: `workflowIdReusePolicy: 'REJECT_DUPLICATE' as const`,
        replace: `workflowIdReusePolicy: 'ALLOW_DUPLICATE' as const`,
      },
    ],
    test: {
      file: PATHS,
      name: 'a budget that is stopped blocks those who ask, and counts what was sent when it starts again',
    },
  },
  {
    name: 'a new run of the budget begins empty',
    what: 'continue-as-new without the state',
    edits: [
      {
        file: BUDGET,
        find: `return continueAsNew<typeof projectBudget>({ projectId, settings }, budget.state);`,
        replace: `return continueAsNew<typeof projectBudget>({ projectId, settings });`,
      },
    ],
    test: { file: PATHS, name: 'a budget continues as new with its settings, its sends and its line' },
    rebuilds: true,
  },
  {
    name: 'a reset budget trusts its history',
    what: 'a budget that was reset does not count what was sent after the point of its reset',
    edits: [
      {
        file: BUDGET,
        find: `workflowInfo().runId !== runId && patched(\`counts-after-\${runId}\`)`,
        replace: `false && patched(\`counts-after-\${runId}\`)`,
      },
    ],
    test: { file: PATHS, name: 'a budget that is reset counts what was sent' },
    rebuilds: true,
  },
  {
    name: 'a cancel reaches the budget',
    what: 'a budget ends when it is asked to cancel',
    edits: [
      {
        file: BUDGET,
        find: `await CancellationScope.nonCancellable(() => loop.run(assumeFull && state === undefined));`,
        replace: `await loop.run(assumeFull && state === undefined);`,
      },
    ],
    test: {
      file: 'test/operators/budget.test.ts',
      name: 'a budget that is asked to cancel continues and says so with an empty queue and no timer',
    },
    rebuilds: true,
  },
  {
    name: 'a budget takes words as they come',
    what: 'a signal that is typed by hand fails the tasks of the budget',
    edits: [
      {
        file: BUDGET,
        find: `    if (parsed.ok && isOfProject(projectId, parsed.value.workflowId)) loop.hear(parsed.value);`,
        replace: `    void parsed;
    loop.hear(event as Parameters<BudgetLoop['hear']>[0]);`,
      },
    ],
    test: { file: 'test/operators/budget.test.ts', name: 'a budget skips signals and updates that make no sense' },
    rebuilds: true,
  },
];
