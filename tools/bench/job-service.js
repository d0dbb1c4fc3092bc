import { once } from 'node:events';
import { createServer } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

const PATH = /^\/v2\/agent\/([^/]+)\/job\/([^/]+?)(\/message)?$/;

/**
 * An agent job service whose turns end after a number of reads instead of a time. Both sides of the benchmark then make
 * the same number of polls, however fast the machine is. Every job exists and is idle.
 *
 * @param {(jobId: string) => number} readsPerTurn number of the read after a message, from 1, that first shows its end
 * @param {(jobId: string) => number} readTakesMs how long a read takes
 */
export async function startJobService(readsPerTurn, readTakesMs) {
  /** @type {Map<string, { messages: number, readsBefore: number, readsAfter: number, messageAtMs?: number }>} */
  const jobs = new Map();

  const shown = (jobId, { messages, readsAfter }) => {
    const active = messages > 0 && readsAfter < readsPerTurn(jobId);
    return {
      id: jobId,
      status: active ? 'active' : 'completed',
      source: { repository: 'https://git.example/team/project', ref: 'main' },
      model: 'bench',
      prLink: active ? null : `https://git.example/team/project/pull/${jobId}-${messages}`,
      createdAt: '2025-01-01T00:00:00.000Z',
      archivedAt: null,
    };
  };

  const server = createServer(async (request, response) => {
    const [, , jobId, message] = PATH.exec(request.url) ?? [];
    if (jobId === undefined || (request.method === 'POST') !== (message !== undefined)) {
      response.writeHead(404).end('{"error":"not found"}');
      return;
    }
    request.resume();
    await once(request, 'end');
    const job = jobs.get(jobId) ?? { messages: 0, readsBefore: 0, readsAfter: 0 };
    jobs.set(jobId, job);
    if (message) {
      job.messages += 1;
      job.messageAtMs = performance.now();
    } else if (job.messages === 0) job.readsBefore += 1;
    else job.readsAfter += 1;
    if (!message && readTakesMs(jobId) > 0) await delay(readTakesMs(jobId));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(shown(jobId, job)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseUrl: `http://127.0.0.1:${server.address().port}`,
    /** A job's messages, the time of the last (`performance.now()`), and the reads before and after the first. */
    asked: (jobId) => jobs.get(jobId) ?? { messages: 0, readsBefore: 0, readsAfter: 0 },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
