export interface CoalescerOptions<Request, Answer> {
  /** Makes one call for several requests of a group. Returns one answer for each, in the same order. */
  call: (group: string, requests: Request[]) => Promise<Answer[]>;
  /** Most calls of one group in flight at once. */
  maxCallsInFlight: number;
  maxPerCall: number;
  /** Time between the starts of two calls of a group. Requests that arrive in between go together. @default 0 */
  apartMs?: number;
  /** Whether requests that wait for `apartMs` to pass go out earlier. @default never */
  isEnough?: (requests: Request[]) => boolean;
}

export interface Coalesced<Request, Answer> {
  (group: string, request: Request, signal?: AbortSignal): Promise<Answer>;
  /** Ends `apartMs` after the last call of a group now. */
  hurry: (group: string) => void;
  /**
   * Makes another call that takes along the requests of a group that wait. If it succeeds, all of them get `answer`, and
   * the next `apartMs` count from its start. If it fails, they wait for the next call.
   */
  takeAlong: <Result>(
    group: string,
    answer: Answer,
    callWith: (requests: Request[]) => Promise<Result>,
  ) => Promise<Result>;
}

interface Pending<Request, Answer> {
  request: Request;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
  signal: AbortSignal | undefined;
}

interface Group<Request, Answer> {
  pending: Pending<Request, Answer>[];
  callsInFlight: number;
  /** Set while the latest call started less than `apartMs` ago. */
  rest: NodeJS.Timeout | undefined;
}

/**
 * Lets requests of a group share calls. The first ones go out at once. While the maximum number of calls is in flight,
 * or too little time has passed since the last call, the others wait and then go together, in order. A call that fails
 * fails all of its requests. A request whose signal is aborted before its call goes out is withdrawn; after that it
 * cannot be.
 */
export function createCoalescer<Request, Answer>({
  call,
  maxCallsInFlight,
  maxPerCall,
  apartMs = 0,
  isEnough = () => false,
}: CoalescerOptions<Request, Answer>): Coalesced<Request, Answer> {
  const groups = new Map<string, Group<Request, Answer>>();

  async function callNext(name: string, group: Group<Request, Answer>): Promise<void> {
    const batch = group.pending.splice(0, maxPerCall);
    group.callsInFlight += 1;
    if (apartMs > 0) rest(name, group);
    try {
      const answers = await call(
        name,
        batch.map(({ request }) => request),
      );
      for (const [index, { resolve, reject }] of batch.entries()) {
        const answer = answers[index];
        if (answer === undefined) reject(new Error(`${answers.length} answers to ${batch.length} requests`));
        else resolve(answer);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      group.callsInFlight -= 1;
      startCalls(name, group);
    }
  }

  function startCalls(name: string, group: Group<Request, Answer>): void {
    const isDue = () =>
      group.pending.length > 0 && (!group.rest || isEnough(group.pending.map(({ request }) => request)));
    while (isDue() && group.callsInFlight < maxCallsInFlight) void callNext(name, group);
    if (group.callsInFlight === 0 && !group.rest) groups.delete(name);
  }

  function rest(name: string, group: Group<Request, Answer>): void {
    clearTimeout(group.rest);
    group.rest = setTimeout(() => endRest(name, group), apartMs);
  }

  function endRest(name: string, group: Group<Request, Answer>): void {
    clearTimeout(group.rest);
    group.rest = undefined;
    startCalls(name, group);
  }

  function hurry(name: string): void {
    const group = groups.get(name);
    if (group?.rest) endRest(name, group);
  }

  async function takeAlong<Result>(
    name: string,
    answer: Answer,
    callWith: (requests: Request[]) => Promise<Result>,
  ): Promise<Result> {
    const group = groups.get(name);
    const taken = group?.pending.splice(0, maxPerCall) ?? [];
    if (!group || taken.length === 0) return callWith([]);
    if (apartMs > 0) rest(name, group);
    try {
      const result = await callWith(taken.map(({ request }) => request));
      for (const { resolve } of taken) resolve(answer);
      return result;
    } catch (error) {
      for (const { reject } of taken.filter(({ signal }) => signal?.aborted)) reject(error);
      group.pending.unshift(...taken.filter(({ signal }) => !signal?.aborted));
      groups.set(name, group);
      startCalls(name, group);
      throw error;
    }
  }

  function coalesced(name: string, request: Request, signal?: AbortSignal): Promise<Answer> {
    const group = groups.get(name) ?? { pending: [], callsInFlight: 0, rest: undefined };
    groups.set(name, group);
    let takeBack = () => undefined as void;
    const answered = new Promise<Answer>((resolve, reject) => {
      takeBack = () => {
        const place = group.pending.findIndex((each) => each.request === request);
        if (place < 0) return;
        group.pending.splice(place, 1);
        reject(new Error('taken back'));
      };
      group.pending.push({ request, resolve, reject, signal });
    });
    signal?.addEventListener('abort', takeBack);
    startCalls(name, group);
    return answered.finally(() => signal?.removeEventListener('abort', takeBack));
  }

  return Object.assign(coalesced, { hurry, takeAlong });
}
