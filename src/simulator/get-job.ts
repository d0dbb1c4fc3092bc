import { bendAnswer, errorAnswer, faultAnswer, jobAnswer, type Answer } from './answer.js';
import { faultApplies } from './fault-plan.js';
import type { ServiceRequest, ServiceState } from './service-state.js';

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
    // A fault that lets no message through lets no job through, either; the 503 of a gateway hides it as well.
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
