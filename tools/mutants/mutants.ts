/** A wrong edit of this project's own code, and the test that must fail with it. */
export interface Mutant {
  /** What the edit does wrong. */
  name: string;
  /** Each text must occur exactly once in its file. */
  edits: readonly (readonly [file: string, text: string, instead: string])[];
  /** By its file and its full name: the names of its suites and its own, joined with spaces. */
  test: { file: string; name: string };
}

/** Tests run the workflows from a bundle, and all else from its source. */
export const needsBuild = ({ edits }: Mutant): boolean =>
  edits.some(([file]) => !/^src\/(agent-jobs|activities)\//.test(file));

/**
 * Makes the edits of a mutant.
 *
 * @returns the new text of each file
 * @throws Error if a text to replace does not occur exactly once
 */
export async function mutate({ name, edits }: Mutant, read: (file: string) => Promise<string>) {
  const texts = new Map<string, string>();
  for (const [file, text, instead] of edits) {
    const parts = (texts.get(file) ?? (await read(file))).split(text);
    if (parts.length !== 2) throw new Error(`${name}: not once but ${parts.length - 1} times in ${file}:\n${text}`);
    texts.set(file, parts.join(instead));
  }
  return texts;
}

const POST = 'src/agent-jobs/post-once.ts';
const FOLLOW_UP = 'src/workflows/follow-up.ts';
const BUDGET = 'src/workflows/project-budget.ts';

const sendOutcomes = (name: string) => ({ file: 'test/agent-jobs/send-outcomes.test.ts', name });
const atMostOnce = (name: string) => ({ file: 'test/agent-jobs/at-most-once.test.ts', name });
const secrets = (name: string) => ({ file: 'test/agent-jobs/secrets.test.ts', name });
const paths = (name: string) => ({ file: 'test/workflows/paths.test.ts', name });
const followUp = (name: string) => ({ file: 'test/operators/follow-up.test.ts', name });
const budget = (name: string) => ({ file: 'test/operators/budget.test.ts', name });

/** Mistakes that are easily made in good faith. The named test must catch each. */
export const mutants: readonly Mutant[] = [
  {
    name: 'a message whose connection breaks after its start is sent again',
    edits: [
      [POST, '(request: PostRequest): Promise<PostResult> {', '(request: PostRequest, n = 1): Promise<PostResult> {'],
      [
        POST,
        'if (attempt.started) return',
        'if (attempt.started && n < 2) return postOnce(request, n + 1); else return',
      ],
    ],
    test: sendOutcomes("over plain TCP, a message to a peer that 'reads all, resets' is 'unknown'"),
  },
  {
    name: 'messages share a keep-alive connection',
    edits: [
      [POST, 'class VetoedError', 'const kept: Record<string, Client> = {};\nclass VetoedError'],
      [POST, 'const client = new Client', 'const client = kept[request.origin] ??= new Client'],
      [POST, 'connect: connection.connect,\n    pipelining: 0', 'pipelining: 1'],
      [POST, 'void client.destroy().catch(() => undefined);', ''],
    ],
    test: atMostOnce(
      'over plain TCP none of 200 messages fails if the peer closes every connection after its response',
    ),
  },
  {
    name: 'a message goes to the Location of a response, as fetch does for 307 and 308',
    edits: [
      [
        POST,
        'if (attempt.response) return',
        `const to = attempt.response?.headers['location'];
  const next = typeof to === 'string' ? new URL(to, request.origin).pathname : request.path;
  if (next !== request.path) return postOnce({ ...request, path: next });
  if (attempt.response) return`,
      ],
    ],
    test: atMostOnce('a 307 is never followed, either for a message or for a read'),
  },
  {
    name: 'what the service wrote enters the history with the error of the HTTP library',
    edits: [['src/agent-jobs/outcomes.ts', `'unknown', message };`, `'unknown', message, ...result };`]],
    test: secrets('a parser error shows nothing of what the peer wrote'),
  },
  {
    name: 'an error that should end a follow-up fails its workflow task again and again',
    edits: [
      [
        'src/workflows/failures.ts',
        'ApplicationFailure.create({ type, message,',
        'Object.assign(new Error(message), { type,',
      ],
      ['src/workflows/failures.ts', 'details: [details] });', 'details: [details] }) as never;'],
    ],
    test: paths('a follow-up fails with InvalidInput'),
  },
  {
    name: 'a follow-up that is cancelled while its message is being sent does not wait for the response',
    edits: [[FOLLOW_UP, 'CancellationScope.nonCancellable(() => flow.run())', 'flow.run()']],
    test: paths('a follow-up that is cancelled while its message is being sent lets it arrive'),
  },
  {
    name: 'a follow-up takes a reply that was typed by hand for a grant',
    edits: [[FOLLOW_UP, 'if (parsed.ok) flow.receive(parsed.value)', 'void parsed, flow.receive(reply as never)']],
    test: followUp('a waiting follow-up skips signals that make no sense, and refuses invalid updates'),
  },
  {
    name: 'a send that was completed by hand counts as the service’s response',
    edits: [
      [
        'src/workflows/follow-up-port.ts',
        'readSendResult(await',
        '((sent: SendResult, to: SendRequest) => sent ?? readSendResult(sent, to))(await',
      ],
    ],
    test: paths('a follow-up whose send is completed by hand does not take that for the service’s response'),
  },
  {
    name: 'a run that was reset sends with the grant of the run before',
    edits: [['src/activities/send-message.ts', 'ownRun().runId !== grant.runId', 'grant.runId === undefined']],
    test: paths('a follow-up that is reset after its grant does not use the grant again'),
  },
  {
    name: 'the next ask starts a budget that was stopped',
    edits: [['src/protocol/budget-start.ts', `'REJECT_DUPLICATE' as const`, `'ALLOW_DUPLICATE' as const`]],
    test: paths('a budget that is stopped blocks those who ask, and counts what was sent when it starts again'),
  },
  {
    name: 'a budget continues as new without its state',
    edits: [[BUDGET, '{ projectId, settings }, budget.state)', '{ projectId, settings })']],
    test: paths('a budget continues as new with its settings, its sends and its line'),
  },
  {
    name: 'a budget that was reset does not count what was sent after the point of its reset',
    edits: [[BUDGET, '    patched,', '    patched: () => false,']],
    test: paths('a budget that is reset counts what was sent'),
  },
  {
    name: 'a budget ends when it is asked to cancel',
    edits: [[BUDGET, 'CancellationScope.nonCancellable(() => loop.run(', '((run) => run())(() => loop.run(']],
    test: budget(
      'a budget that is asked to cancel continues with an empty line and no timer, and says that it refuses to cancel',
    ),
  },
  {
    name: 'a signal that was typed by hand fails the tasks of a budget',
    edits: [
      [
        BUDGET,
        'if (parsed.ok && isOfProject(projectId, parsed.value.workflowId)) loop.receive(parsed.value)',
        'void parsed, loop.receive(event as never)',
      ],
    ],
    test: budget('a budget skips signals and updates that make no sense'),
  },
];
