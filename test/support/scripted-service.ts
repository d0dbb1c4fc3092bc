import type { AgentJobsClient, GetJobOutcome, SendMessageOutcome } from '../../src/agent-jobs/index.js';
import type { AgentJob } from '../../src/contract/index.js';

/** A message as the scripted service received it. */
export interface ReceivedMessage {
  projectId: string;
  jobId: string;
  prompt: string;
}

/**
 * An agent job service whose answers a test sets step by step. The time-skipping server needs it, because a real
 * service has another clock. The last answer of a list is repeated.
 */
export class ScriptedService implements AgentJobsClient {
  readonly received: ReceivedMessage[] = [];
  gets = 0;
  #reads = new Map<string, GetJobOutcome[]>();
  #hanging = new Set<string>();
  #release: (() => void)[] = [];
  #sends: ((message: ReceivedMessage) => SendMessageOutcome | Promise<SendMessageOutcome>)[] = [];

  /** The results of the next reads of a job, in order. */
  reads(jobId: string, ...outcomes: (AgentJob | GetJobOutcome)[]): this {
    this.#reads.set(
      jobId,
      outcomes.map((each) => ('kind' in each ? (each as GetJobOutcome) : { kind: 'job', job: each })),
    );
    return this;
  }

  /** Makes the next read of the job hang until the service is closed. */
  hangs(jobId: string): this {
    this.#hanging.add(jobId);
    return this;
  }

  /** The outcomes of the next sends, in order. All later sends are `sent`. */
  sends(
    ...outcomes: (
      SendMessageOutcome | ((message: ReceivedMessage) => SendMessageOutcome | Promise<SendMessageOutcome>)
    )[]
  ): this {
    this.#sends.push(...outcomes.map((each) => (typeof each === 'function' ? each : () => each)));
    return this;
  }

  getJob({ jobId }: { jobId: string }): Promise<GetJobOutcome> {
    this.gets += 1;
    if (this.#hanging.delete(jobId)) {
      return new Promise((resolve) => this.#release.push(() => resolve({ kind: 'notFound', message: 'too late' })));
    }
    const reads = this.#reads.get(jobId) ?? [];
    const next = reads.length > 1 ? reads.shift() : reads[0];
    return Promise.resolve(next ?? { kind: 'notFound', message: 'HTTP 404: no such job' });
  }

  async sendMessage(message: ReceivedMessage & { mayStart: () => boolean }): Promise<SendMessageOutcome> {
    if (!message.mayStart()) return { outcome: 'notSent', message: 'too late' };
    const { projectId, jobId, prompt } = message;
    const received = { projectId, jobId, prompt };
    const outcome = await (this.#sends.shift()?.(received) ?? { outcome: 'sent' as const, statusCode: 200 });
    if (outcome.outcome !== 'notSent') this.received.push(received);
    return outcome;
  }

  close(): Promise<void> {
    for (const release of this.#release) release();
    return Promise.resolve();
  }
}
