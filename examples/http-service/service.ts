import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  type FollowUpClient,
  FollowUpClientError,
  FollowUpFailedError,
  InvalidInputError,
  RefusedError,
  type StartInput,
  TemporalUnreachableError,
} from 'agent-follow-up/client';

/** A prompt has at most 256 KiB; JSON may escape each byte with six. */
const MAX_BODY_BYTES = 2 * 1_048_576;

interface Answer {
  status: number;
  body: unknown;
}

/**
 * Follow-ups over HTTP:
 *
 * - `POST /follow-ups` with a `StartInput` as JSON starts one, and answers 202 with its `id`; 200 if the `key` was used
 *   before with the same input, and 409 if it was used with another.
 * - `GET /follow-ups/ID` answers how it stands, and its result or its failure once it has ended.
 *
 * It authenticates nobody: put it behind something that does.
 */
export function createFollowUpService(followUps: FollowUpClient): Server {
  return createServer((request, response) => {
    answer(followUps, request)
      .catch((error: unknown) => answerTo(error))
      .then(({ status, body }) => respond(response, status, body))
      .catch(() => response.destroy());
  });
}

async function answer(followUps: FollowUpClient, request: IncomingMessage): Promise<Answer> {
  const [pathname = ''] = (request.url ?? '/').split('?');
  const [, collection, ...rest] = pathname.split('/');
  if (collection !== 'follow-ups') return { status: 404, body: { error: 'not found' } };
  if (rest.length === 0 && request.method === 'POST') return post(followUps, request);
  if (rest.length === 1 && request.method === 'GET') return get(followUps, decodeId(rest[0] ?? ''));
  return { status: 405, body: { error: 'POST /follow-ups or GET /follow-ups/ID' } };
}

function decodeId(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new InvalidInputError([{ field: 'id', message: 'must be percent-encoded' }]);
  }
}

async function post(followUps: FollowUpClient, request: IncomingMessage): Promise<Answer> {
  const text = await readBody(request);
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch {
    return { status: 400, body: { error: 'the body is not JSON' } };
  }
  // The library checks every field, and says which of them are wrong.
  const started = await followUps.start(input as StartInput);
  const body = { id: started.workflowId, key: started.key };
  if (started.inputDiffers) return { status: 409, body: { ...body, error: 'the key was used for another input' } };
  return { status: started.alreadyStarted ? 200 : 202, body };
}

async function get(followUps: FollowUpClient, id: string): Promise<Answer> {
  const handle = followUps.handle(id);
  const { status } = await handle.describe();
  if (status === 'running') return { status: 200, body: { id, ended: false, progress: await handle.progress() } };
  try {
    return { status: 200, body: { id, ended: true, result: await handle.result() } };
  } catch (error) {
    if (error instanceof FollowUpFailedError) {
      const { type, message, delivered } = error;
      return { status: 200, body: { id, ended: true, failure: { type, message, delivered } } };
    }
    throw error;
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new InvalidInputError([{ field: '', message: 'the body is too long' }]);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function answerTo(error: unknown): Answer {
  if (error instanceof InvalidInputError) return { status: 400, body: { error: error.message, issues: error.issues } };
  if (RefusedError.is(error, 'FollowUpNotFound')) return { status: 404, body: { error: error.message } };
  // Whether it was started is not known: to send the same request with the same key again is safe.
  if (error instanceof TemporalUnreachableError) return { status: 503, body: { error: error.message } };
  if (error instanceof FollowUpClientError) return { status: 500, body: { error: error.message } };
  return { status: 500, body: { error: 'internal error' } };
}

function respond(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
