export type Failure =
  | 'reset'
  | 'hang'
  /** Another status, with the interface's Error body. */
  | { status: number; error?: string; headers?: Record<string, string> };

/** The response, with its status at once and its body in drips over this time. */
export interface Drip {
  dripMs: number;
}

export type PlannedFault = {
  method: 'GET' | 'POST';
  /** @default any project */
  projectId?: string;
  /** @default any job */
  jobId?: string;
  /** Number of requests that it strikes. @default 1 */
  times?: number;
} & (
  | {
      /** Before or after the request takes effect: after, the job has accepted the message. @default 'before' */
      when?: 'before' | 'after';
      how: Failure;
    }
  | { when: 'after'; how: Drip }
);

export class FaultPlan {
  #left: { fault: PlannedFault; times: number }[] = [];

  add(fault: PlannedFault): void {
    this.#left.push({ fault, times: fault.times ?? 1 });
  }

  clear(): void {
    this.#left = [];
  }

  /** Removes and returns the first fault planned for a request. */
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
