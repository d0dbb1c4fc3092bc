import type { Agent } from 'undici';
import { readAnswer, withinDeadline, type Answer } from './answer.js';

/** One GET. */
export interface GetRequest {
  origin: string;
  path: string;
  headers: Record<string, string>;
  /** For everything: waiting for a connection, connecting, TLS, waiting, reading the answer. */
  deadlineMs: number;
}

/** What became of a GET: an answer (`error` says why its body is missing), or none. */
export type GetResult = { kind: 'unanswered'; error: unknown } | { kind: 'answered'; answer: Answer; error: unknown };

/** Sends a GET through an agent, once: no redirect is followed, and the caller's polling is the retry. Never throws. */
export async function getOnce(agent: Agent, { deadlineMs, ...request }: GetRequest): Promise<GetResult> {
  const abort = new AbortController();
  const attempt: { answer?: Answer } = {};
  const response = agent.request({ ...request, method: 'GET', signal: abort.signal });
  const error = await withinDeadline(deadlineMs, readAnswer(response, attempt));
  if (error !== undefined) abort.abort();
  return attempt.answer ? { kind: 'answered', answer: attempt.answer, error } : { kind: 'unanswered', error };
}
