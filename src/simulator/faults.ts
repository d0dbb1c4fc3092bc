/** What comes instead of an answer. */
export type Failure =
  /** The connection is reset. */
  | 'reset'
  /** Nothing, ever. */
  | 'hang'
  /** Another status, with the interface's Error body. */
  | { status: number; error?: string; headers?: Record<string, string> };

/** The answer, whose status comes at once and whose body in drips over this time. */
export interface Drip {
  dripMs: number;
}

/** A fault that strikes the next matching requests. */
export type PlannedFault = {
  method: 'GET' | 'POST';
  /** @default any project */
  projectId?: string;
  /** @default any job */
  jobId?: string;
  /** How many requests it strikes. @default 1 */
  times?: number;
} & (
  | {
      /** Before the request takes effect, or after it: then the job has taken the message. @default 'before' */
      when?: 'before' | 'after';
      how: Failure;
    }
  | { when: 'after'; how: Drip }
);

/** The planned faults that have not struck yet. */
export class FaultPlan {
  #left: { fault: PlannedFault; times: number }[] = [];

  add(fault: PlannedFault): void {
    this.#left.push({ fault, times: fault.times ?? 1 });
  }

  clear(): void {
    this.#left = [];
  }

  /** Takes the fault that strikes a request: the first one planned for it. */
  next(request: { method: 'GET' | 'POST'; projectId: string; jobId: string }): PlannedFault | undefined {
    const planned = this.#left.find(
      ({ fault: { method, projectId, jobId } }) =>
        method === request.method &&
        (projectId ?? request.projectId) === request.projectId &&
        (jobId ?? request.jobId) === request.jobId,
    );
    if (planned && --planned.times === 0) this.#left = this.#left.filter((other) => other !== planned);
    return planned?.fault;
  }
}
