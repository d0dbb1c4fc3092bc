import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type Answer, bendAnswer, errorAnswer, faultAnswer, jobAnswer, retryAfterHeader } from './answers.js';
import { type Fault, faultApplies, faultCounts } from './fault-plan.js';
import type { RequestPlan, ServiceRequest, ServiceState } from './service-state.js';

/** `GET /v2/agent/{projectId}/job/{id}`. Resolves when the answer is due. */
export async function getJob(state: ServiceState, request: ServiceRequest, redirectLocation: string): Promise<Answer> {
  state.gets++;
  const plan = state.plan('GET', request);
  await state.wait(plan.beforeMs);
  const answer = decide();
  await state.wait(plan.afterMs);
  return answer;

  function decide(): Answer {
    const { fault, random } = plan;
    const echoed = state.echoed(request, 'error');
    if (!state.authorized(request)) return errorAnswer(401, 'invalid API key', { echoed });
    // A fault that stops a message also stops a read; a gateway's 503 hides the job as well.
    if (fault && (!faultApplies(fault) || fault.kind === 'http503AfterApply' || fault.kind === 'status')) {
      return faultAnswer(fault, { echoed, redirectLocation, retryAfter: state.faultRetryAfter(fault, random) });
    }
    const nowMs = Date.now();
    const job = state.jobs.find(request.projectId, request.jobId, nowMs);
    if (!job) return errorAnswer(404, 'agent job not found', { echoed });
    const whole = jobAnswer(job.shown(nowMs), { withStatus: true, echoed: state.echoed(request, 'job') });
    return fault ? bendAnswer(whole, fault) : whole;
  }
}

/** The part of the body that the ledger records. */
const promptSchema = z.looseObject({ prompt: z.string() });

interface Decision {
  answer: Answer;
  countedAtMs: number | null;
  appliedAtMs: number | null;
}

/**
 * `POST /v2/agent/{projectId}/job/{id}/message`. Resolves when the answer is due; the ledger knows by then.
 *
 * In this order: the key, the faults that count for nothing (`limited`, `unauthorized`), the rate limit, the faults
 * that stop the message before its job, the message itself. So everything that passes the limiter counts, even what is
 * refused with 400 or 404 or dies after it: the strictest reading of "uses".
 */
export async function postMessage(
  state: ServiceState,
  request: ServiceRequest,
  redirectLocation: string,
): Promise<Answer> {
  state.posts++;
  const plan = state.plan('POST', request);
  await state.wait(plan.beforeMs);
  const prompt = readPrompt(request.body);
  await state.reach('received', request, prompt);
  const { answer, countedAtMs, appliedAtMs } = decide(state, request, plan, prompt, redirectLocation);
  await state.ledger.append({
    receivedAtMs: request.receivedAtMs,
    countedAtMs,
    appliedAtMs,
    projectId: request.projectId,
    jobId: request.jobId,
    promptSha256: prompt === null ? null : createHash('sha256').update(prompt, 'utf8').digest('hex'),
    prompt,
    accepted: appliedAtMs !== null,
    status: answer.status,
    fault: plan.fault?.kind ?? null,
  });
  await state.reach('recorded', request, prompt);
  await state.wait(plan.afterMs);
  return { ...answer, afterDelivery: () => state.reach('answered', request, prompt) };
}

function decide(
  state: ServiceState,
  request: ServiceRequest,
  { fault, random }: RequestPlan,
  prompt: string | null,
  redirectLocation: string,
): Decision {
  const nowMs = Date.now();
  const echoed = state.echoed(request, 'error');
  const struckBy = (by: Fault): Answer =>
    faultAnswer(by, { echoed, redirectLocation, retryAfter: state.faultRetryAfter(by, random) });
  const refused = (answer: Answer, countedAtMs: number | null): Decision => ({
    answer,
    countedAtMs,
    appliedAtMs: null,
  });

  if (!state.authorized(request)) return refused(errorAnswer(401, 'invalid API key', { echoed }), null);
  if (fault && !faultCounts(fault)) return refused(struckBy(fault), null);

  const { taken, availableInMs } = state.budget(request.projectId, nowMs).take(nowMs);
  if (!taken) {
    const headers = retryAfterHeader(state.settings.retryAfter, availableInMs, nowMs, random);
    return refused(errorAnswer(429, 'rate limit exceeded', { echoed, headers }), null);
  }
  if (fault && !faultApplies(fault)) return refused(struckBy(fault), nowMs);

  const job = state.jobs.find(request.projectId, request.jobId, nowMs);
  if (!job) return refused(errorAnswer(404, 'agent job not found', { echoed }), nowMs);
  if (!isJson(request.contentType)) {
    return refused(errorAnswer(400, 'Content-Type must be application/json', { echoed }), nowMs);
  }
  if (prompt === null || prompt === '') {
    return refused(errorAnswer(400, 'prompt must be a string of at least 1 character', { echoed }), nowMs);
  }
  if (job.truth(nowMs).status === 'archived') {
    return refused(errorAnswer(400, 'agent job is archived', { echoed }), nowMs);
  }

  job.message(nowMs, state.jobs.turnFor(request.projectId, request.jobId, job));
  const whole = jobAnswer(job.truth(nowMs), {
    withStatus: state.settings.statusInPostAnswer,
    echoed: state.echoed(request, 'job'),
  });
  const answer =
    fault?.kind === 'http503AfterApply' || fault?.kind === 'status'
      ? struckBy(fault)
      : fault
        ? bendAnswer(whole, fault)
        : whole;
  return { answer, countedAtMs: nowMs, appliedAtMs: nowMs };
}

function isJson(contentType: string | undefined): boolean {
  return contentType?.split(';')[0]?.trim().toLowerCase() === 'application/json';
}

function readPrompt(body: Buffer): string | null {
  try {
    return promptSchema.parse(JSON.parse(body.toString('utf8'))).prompt;
  } catch {
    return null;
  }
}
