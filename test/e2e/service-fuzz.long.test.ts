import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { FollowUpFailedError } from '../../src/client/index.js';
import { FailureType } from '../../src/contract/index.js';
import { createRandom } from '../../src/simulator/random.js';
import { useStack } from '../support/project.js';
import { FAST } from '../support/stack.js';

/** `SERVICE_FUZZ_FROM=1001 npx vitest run test/e2e/service-fuzz.long.test.ts` tries other seeds. */
const FROM = Number(process.env['SERVICE_FUZZ_FROM'] ?? 1);
const COUNT = 80;
const AT_ONCE = 16;

/** Values that may be in any field of a job. They reach histories, search attributes and the Temporal UI. */
const values = [
  ...[7, true, null, [], {}, '', ' completed', 'COMPLETED', 'reviewing', 'active', 'failed', 'archived', 'a\u0000b'],
  ...['\u001b[2J\u009b31m', '\ud800', '\u202ehttps://git.example', '`](javascript:x)', '<script>', 'state\nof\tplay'],
  ...['漢'.repeat(255), `${'a'.repeat(254)}😀`, 'x'.repeat(255), 'x'.repeat(256), 'x'.repeat(100_000)],
];
const fields = ['id', 'status', 'source', 'model', 'prLink', 'createdAt', 'archivedAt', '__proto__', 'toJSON'];
const bodies = ['', '{"id":"j","sta', '<html>', 'null', '[]', '"completed"', '{"error":"no"}', '['.repeat(60_000)];
const statuses = [200, 200, 200, 200, 204, 302, 400, 401, 402, 404, 404, 408, 413, 422, 429, 500, 503, 999];
/** After its head, an answer is whole or breaks off in its body, or a reset comes instead. */
const manners = ['whole', 'whole', 'whole', 'half', 'reset'] as const;

const job = (status: string, number: number) => ({ id: 'j', status, prLink: `https://git.example/pull/${number}` });
type Answer = { status: number; body: string; manner: (typeof manners)[number] };

/** A job whose seed decides which requests get a hostile answer, how many of them, and which answer. */
class HostileJob {
  readonly posts: Answer[] = [];
  readonly place: string;
  readonly #hostile: Answer;
  #left: number;
  /** A job that never works does not show whether a message was taken. */
  readonly #turns: object[];

  constructor(seed: number) {
    const random = createRandom(seed).fork('service fuzz');
    const pick = <T>(items: readonly T[]): T => items[random.between(0, items.length - 1)]!;
    const field = () => JSON.stringify({ [pick(fields)]: pick(values) }).slice(1, -1);
    this.place = pick(['reads', 'messages', 'messages', 'polls']);
    this.#left = pick([1, 2, 3, 1_000]);
    this.#turns = pick([[job('active', 1), job('completed', 2)], [job('completed', 1)]]);
    const hostile = `${JSON.stringify(job('completed', 3)).slice(0, -1)},${field()},${field()}}`;
    const body = pick([hostile, hostile, hostile, pick(bodies)]);
    this.#hostile = { status: pick(statuses), body, manner: pick(manners) };
  }

  answerTo(method = ''): Answer {
    const place = method === 'POST' ? 'messages' : this.posts.length > 0 ? 'polls' : 'reads';
    const usual = {
      ...{ reads: () => job('completed', 1), messages: () => ({ id: 'j' }) },
      polls: () => (this.#turns.length > 1 ? this.#turns.shift() : this.#turns[0]),
    }[place];
    const isStruck = place === this.place && this.#left-- > 0;
    const answer = isStruck ? this.#hostile : { status: 200, body: JSON.stringify(usual()), manner: 'whole' as const };
    if (method === 'POST') this.posts.push(answer);
    return answer;
  }
}

function write(response: ServerResponse, { status, body, manner }: Answer): void {
  if (manner === 'reset') return void response.socket?.resetAndDestroy();
  const length = Buffer.byteLength(body) + (manner === 'half' ? 10 : 0);
  const head = `HTTP/1.1 ${status} Hostile\r\nlocation: /elsewhere\r\nretry-after: 1\r\ncontent-length: ${length}\r\n\r\n`;
  response.socket?.end(head + ([204, 304].includes(status) ? '' : body));
}

const jobs = new Map<string, HostileJob>();
const service = createServer((request, response) => {
  const [, jobId = ''] = /\/job\/([^/]+)/.exec(request.url ?? '') ?? [];
  request.resume().once('end', () => write(response, jobs.get(jobId)!.answerTo(request.method)));
}).listen(0, '127.0.0.1');
await once(service, 'listening');
afterAll(() => service.close());
const AGENT_JOBS_BASE_URL = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
const env = { AGENT_JOBS_BASE_URL, FOLLOW_UP_SEND_TIMEOUT: '3s', FOLLOW_UP_DRAIN: '0s', FOLLOW_UP_MARGIN: '0s' };
// It also expects that no workflow task fails.
const tested = useStack({ env, leaseMs: 4_000 });

test(`${COUNT} follow-ups to a service that answers anything end with a true result or a true failure`, async () => {
  const ends = new Set<string>();
  const shared = tested.newProject().id;
  const one = async (seed: number): Promise<void> => {
    const hostile = new HostileJob(seed);
    jobs.set(`job-${seed}`, hostile);
    // An answer to a message may pause its project.
    const projectId = `${shared}${hostile.place === 'messages' ? `-${seed}` : ''}`;
    const input = {
      projectId,
      jobId: `job-${seed}`,
      prompt: 'x',
      ...FAST,
      budgetWaitTimeout: '60s',
      jobTimeout: '15s',
    };
    const end: unknown = await tested.stack.followUps.run(input).catch((error: unknown) => error);
    const answers = hostile.posts.map(({ status, manner }) => (manner === 'reset' ? 0 : status));
    const taken = answers.filter((status) => status >= 200 && status < 300).length;
    const refused = answers.filter((status) => status >= 400 && status < 500 && status !== 408).length;
    const { type, delivered } = end instanceof FollowUpFailedError ? end : { type: 'result', delivered: 'yes' };
    const what = `seed ${seed}: ${type}, delivered: ${delivered}; answers to its messages: ${answers.join()}`;
    if (end instanceof Error) expect(Object.values(FailureType), `${what}; ${end.message}`).toContain(type);
    else expect(end, what).toMatchObject({ status: expect.stringMatching(/^(completed|archived|failed)$/) });
    expect(answers.length - refused, what).toBe(delivered === 'no' ? 0 : 1);
    if (end instanceof FollowUpFailedError && delivered === 'yes') expect(taken, what).toBe(1);
    ends.add(type);
  };
  const lane = async (index: number): Promise<void> => {
    for (let seed = FROM + index; seed < FROM + COUNT; seed += AT_ONCE) await one(seed);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => lane(index)));
  // On a busy machine, the SDK's core logs an error if a workflow task times out.
  expect(tested.stack.log()).not.toMatch(/^(?!.*"sdkComponent":"core").*"level":"(?:error|fatal)"/m);
  const kinds = ['result', 'DeliveryUnknown', 'MessageRejected', 'BudgetWaitTimeout', 'JobTimeout', 'JobNotFound'];
  expect([...ends]).toEqual(expect.arrayContaining(kinds));
}, 900_000);
