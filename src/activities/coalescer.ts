/** Settings of {@link createCoalescer}. */
export interface CoalescerOptions<Request, Answer> {
  /** Makes one call for several requests of a group; gives one answer for each, in their order. */
  call: (group: string, requests: Request[]) => Promise<Answer[]>;
  /** Calls of one group under way at once. */
  maxCallsInFlight: number;
  /** Requests that one call carries at most. */
  maxPerCall: number;
  /** Between the beginnings of two calls of a group: requests that come meanwhile go together. @default 0 */
  apartMs?: number;
  /** Whether requests that wait for `apartMs` to pass go out before. @default never */
  isEnough?: (requests: Request[]) => boolean;
}

interface Pending<Request, Answer> {
  request: Request;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

interface Group<Request, Answer> {
  pending: Pending<Request, Answer>[];
  callsInFlight: number;
  /** A call has begun less than `apartMs` ago. */
  rest: NodeJS.Timeout | undefined;
}

/**
 * Lets requests of a group share calls: the first go out at once, and while as many calls as allowed are under way the
 * others wait and go together, in order; so do those that come too soon after the call before. A call that fails fails
 * all of its requests. A request whose signal is aborted before its call goes out is taken back; later nothing can be.
 */
export function createCoalescer<Request, Answer>({
  call,
  maxCallsInFlight,
  maxPerCall,
  apartMs = 0,
  isEnough = () => false,
}: CoalescerOptions<Request, Answer>): (group: string, request: Request, signal?: AbortSignal) => Promise<Answer> {
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
    group.rest = setTimeout(() => {
      group.rest = undefined;
      startCalls(name, group);
    }, apartMs);
  }

  return (name, request, signal) => {
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
      group.pending.push({ request, resolve, reject });
    });
    signal?.addEventListener('abort', takeBack);
    startCalls(name, group);
    return answered.finally(() => signal?.removeEventListener('abort', takeBack));
  };
}
