import { Context, log } from '@temporalio/activity';
import { comparedFields, knownFields } from '../follow-up/judge.js';
import { grantName, reasonAgainst, type SendRequest, type SendResult } from '../follow-up/port.js';
import { ownRun } from './activity-context.js';
import { type ActivityDependencies, processClocks } from './dependencies.js';
import { toRead } from './job-read.js';

/**
 * The activity that sends the message at most once: only in the run that has the grant, at the first attempt of an
 * activity that was never reset, and while the grant lasts. Never fails because of the service or the network.
 */
export function createSendMessage(dependencies: ActivityDependencies) {
  const { agentJobs, sendTimeoutMs, linksArePrivate, serverClock, clocks = processClocks } = dependencies;
  const isPrivate = linksArePrivate && ({ linksArePrivate } as const);

  return async function sendMessage(request: SendRequest): Promise<SendResult> {
    const { info } = Context.current();
    const startedAtMs = clocks.stopwatchMs();
    const { projectId, jobId, prompt, whenActive, grant } = request;
    const result = (outcome: SendResult['outcome'], message: string) => ({
      grant: grantName(grant),
      outcome,
      message,
    });
    if (ownRun().runId !== grant.runId) return result('foreign', 'the send was granted to another run');
    const isRepeated = info.attempt > 1 || info.currentAttemptScheduledTimestampMs > info.scheduledTimestampMs;
    if (isRepeated) return result('unknown', 'an earlier attempt of this send may have delivered the message');
    // The wall clock may be set, and the monotonic clock stops while the machine sleeps.
    const usableMs = grant.leaseMs - sendTimeoutMs;
    const mayStart = () =>
      clocks.wallMs() < grant.grantedAtMs + usableMs && clocks.stopwatchMs() - startedAtMs < usableMs;
    if (!mayStart()) {
      const problem = serverClock.problem();
      return result('notSent', `the grant of the slot has expired${problem === undefined ? '' : `; ${problem}`}`);
    }
    let { jobBefore } = request;
    if (!jobBefore) {
      const read = toRead(await agentJobs.getJob({ projectId, jobId }));
      const refused = read.kind === 'failed' && read.refused;
      if (read.kind !== 'job') return { ...result('notSent', read.message), ...refused };
      jobBefore = comparedFields(read.job);
      // If this attempt never reports, the job's state before the send shows whether the message arrived.
      Context.current().heartbeat({ jobBefore });
      const reason = reasonAgainst(jobBefore, whenActive);
      if (reason !== undefined) return result('notSent', reason);
    }
    const sent = await agentJobs.sendMessage({ projectId, jobId, prompt, mayStart });
    const { outcome, statusCode, job } = sent;
    const facts = { projectId, jobId, sendNumber: grant.sendNumber, outcome, statusCode };
    if (outcome === 'sent') log.info('Sent a message', facts);
    else log.warn('A message was not accepted', facts);
    return { ...sent, ...(job && { job: knownFields(job) }), grant: grantName(grant), jobBefore, ...isPrivate };
  };
}
