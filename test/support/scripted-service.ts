import type { AgentJobsClient, GetJobOutcome, SendMessageOutcome } from '../../src/agent-jobs/index.js';
import type { AgentJob } from '../../src/contract/index.js';

/** A message as the scripted service received it. */
export interface ReceivedMessage {
  projectId: string;
  jobId: string;
  prompt: string;
}

/** A job, or another result of a read. */
export type ScriptedRead = AgentJob | GetJobOutcome;

/** An agent job service whose answers a test sets. The last answer of a list is repeated. */
export class ScriptedService implements AgentJobsClient {
  readonly received: ReceivedMessage[] = [];
  /** The jobs of the messages that have begun, whether or not they have ended. */
  readonly begun: string[] = [];
  #reads = new Map<string, GetJobOutcome[]>();
  #readsAfter = new Map<string, GetJobOutcome[]>();
  #sends = new Map<string, (SendMessageOutcome | Promise<SendMessageOutcome>)[]>();

  /** The results of the next reads of a job, in order. */
  reads(jobId: string, ...outcomes: ScriptedRead[]): this {
    this.#reads.set(jobId, outcomes.map(toOutcome));
    return this;
  }

  /** The results of reads once a message was accepted, or may have been. */
  readsAfterMessage(jobId: string, ...outcomes: ScriptedRead[]): this {
    this.#readsAfter.set(jobId, outcomes.map(toOutcome));
    return this;
  }

  /** The outcomes of the next messages to a job, in order. All later ones are `sent`. */
  sends(jobId: string, ...outcomes: (SendMessageOutcome | Promise<SendMessageOutcome>)[]): this {
    this.#sends.set(jobId, outcomes);
    return this;
  }

  getJob({ jobId }: { jobId: string }): Promise<GetJobOutcome> {
    const reads = this.#reads.get(jobId) ?? [];
    const next = reads.length > 1 ? reads.shift() : reads[0];
    return Promise.resolve(next ?? { kind: 'notFound', message: 'HTTP 404: no such job' });
  }

  async sendMessage(message: ReceivedMessage & { mayStart: () => boolean }): Promise<SendMessageOutcome> {
    if (!message.mayStart()) return { outcome: 'notSent', message: 'too late' };
    const { projectId, jobId, prompt } = message;
    const received = { projectId, jobId, prompt };
    this.begun.push(jobId);
    const outcome = await (this.#sends.get(jobId)?.shift() ?? { outcome: 'sent' as const, statusCode: 200 });
    if (outcome.outcome !== 'notSent') this.received.push(received);
    const after = this.#readsAfter.get(jobId);
    if (after && (outcome.outcome === 'sent' || outcome.outcome === 'unknown')) this.#reads.set(jobId, after);
    return outcome;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function toOutcome(read: ScriptedRead): GetJobOutcome {
  return 'kind' in read ? (read as GetJobOutcome) : { kind: 'job', job: read };
}
