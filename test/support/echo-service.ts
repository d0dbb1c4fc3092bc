import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { spellingsOf } from './secret-search.js';

/** An agent job service that repeats the request's Authorization header wherever it can. */
export interface EchoService {
  baseUrl: string;
  /** The number of answers by method and status, such as `POST 401`. */
  answers: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

/**
 * Starts an echo service. The id of a job decides: `get-CODE` answers the first two reads with that status, `poll-CODE`
 * the first two reads after the message, `post-CODE` the first message, and `gone` every read with 404. Every other
 * answer is 200. A message makes the job active for one read.
 */
export async function startEchoService(): Promise<EchoService> {
  const jobs = new Map<string, { gets: number; posts: number; getsAfterPost: number }>();
  const answers = new Map<string, number>();
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => answer(request, response));
  });

  function answer({ method = '', url = '', headers }: IncomingMessage, response: ServerResponse): void {
    const authorization = headers.authorization ?? '';
    const [, id = ''] = /\/job\/([^/]+)/.exec(url) ?? [];
    const job = jobs.get(id) ?? { gets: 0, posts: 0, getsAfterPost: 0 };
    jobs.set(id, job);
    const [kind, code] = id.split('-');
    const strikes =
      (method === 'POST' && kind === 'post' && job.posts === 0) ||
      (method === 'GET' && kind === 'get' && job.gets < 2) ||
      (method === 'GET' && kind === 'poll' && job.posts > 0 && job.getsAfterPost < 2);
    const status = id === 'gone' ? 404 : strikes ? Number(code) : 200;
    // A gateway's error may hide that the message was accepted.
    const isTaken = method === 'POST' && (status === 200 || status >= 500);
    if (isTaken) job.posts += 1;
    else if (method === 'POST') job.posts = Math.max(job.posts, 0.5);
    else if (job.posts >= 1) job.getsAfterPost += 1;
    else job.gets += 1;
    answers.set(`${method} ${status}`, (answers.get(`${method} ${status}`) ?? 0) + 1);

    const key = authorization.replace('Bearer ', '');
    const echoes = [authorization, ...Object.values(spellingsOf(authorization)), ...Object.values(spellingsOf(key))];
    const isAtWork = job.posts >= 1 && job.getsAfterPost < (kind === 'poll' ? 4 : 2);
    response.writeHead(status, {
      'content-type': 'application/json',
      'x-authorization': authorization,
      'www-authenticate': `Bearer realm=${JSON.stringify(key)}`,
      'set-cookie': echoes.map((echo, index) => `k${index}=${echo}`),
      ...(status === 429 && { 'retry-after': '1' }),
    });
    response.end(
      JSON.stringify(
        status === 200
          ? {
              id: key,
              status: isAtWork ? 'active' : 'completed',
              source: { repository: `https://${key}@git.example/r`, ref: authorization },
              model: echoes.join(' '),
              prLink: `https://git.example/pull/${job.posts}?k=${encodeURIComponent(key)}`,
              createdAt: authorization,
              archivedAt: null,
              headers: { authorization, [authorization]: 1 },
              echoes,
            }
          : { error: `${status}: ${echoes.join(' ')}`, headers: { authorization } },
      ),
    );
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
