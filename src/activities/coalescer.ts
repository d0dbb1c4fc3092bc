export interface CoalescerOptions<Request, Answer> {
  /** Makes one call for several requests of a group. Returns one answer for each, in the same order. */
  call: (group: string, requests: Request[]) => Promise<Answer[]>;
  /** Most calls of one group in flight at once, not counting repeats of what `takeAlong` failed to deliver. */
  maxCallsInFlight: number;
  maxPerCall: number;
  /** Time between the starts of two calls of a group. Requests that arrive in between go together. @default 0 */
  apartMs?: number;
  /** Requests that wait for `apartMs` to pass go out earlier if there are this many. @default `Infinity` */
  enough?: number;
}

export interface Coalesced<Request, Answer> {
  (group: string, request: Request, how?: { signal?: AbortSignal; isHeld?: boolean }): Promise<Answer>;
  /** Lets the requests of a group that wait for `apartMs` to pass, or are held, go out now. Returns whether some do. */
  hurry: (group: string) => boolean;
  /**
   * Makes another call that takes along the requests of a group that wait. The next `apartMs` count from its start. If it
   * succeeds within `forMs`, all of them get `answer`. If not, they then go out in a call of their own.
   */
  takeAlong: <Result>(
    group: string,
    along: { answer: Answer; forMs: number },
    otherCall: (requests: Request[]) => Promise<Result>,
  ) => Promise<Result>;
}

interface Pending<Request, Answer> {
  request: Request;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
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
 * cannot be. A request that is held starts no call itself.
 */
export function createCoalescer<Request, Answer>({
  call,
  maxCallsInFlight,
  maxPerCall,
  apartMs = 0,
  enough = Infinity,
}: CoalescerOptions<Request, Answer>): Coalesced<Request, Answer> {
  const groups = new Map<string, Group<Request, Answer>>();

  function groupOf(name: string): Group<Request, Answer> {
    const group = groups.get(name) ?? { pending: [], callsInFlight: 0, rest: undefined };
    groups.set(name, group);
    return group;
  }

  async function callWith(name: string, batch: Pending<Request, Answer>[]): Promise<void> {
    const group = groupOf(name);
    group.callsInFlight += 1;
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
    const isDue = () => group.pending.length > 0 && (!group.rest || group.pending.length >= enough);
    while (isDue() && group.callsInFlight < maxCallsInFlight) {
      rest(name, group);
      void callWith(name, group.pending.splice(0, maxPerCall));
    }
    if (group.callsInFlight === 0 && group.pending.length === 0 && !group.rest) groups.delete(name);
  }

  function rest(name: string, group: Group<Request, Answer>): void {
    if (apartMs === 0) return;
    clearTimeout(group.rest);
    group.rest = setTimeout(() => endRest(name, group), apartMs);
  }

  function endRest(name: string, group: Group<Request, Answer>): void {
    clearTimeout(group.rest);
    group.rest = undefined;
    startCalls(name, group);
  }

  function hurry(name: string): boolean {
    const group = groups.get(name);
    const waiting = group?.pending.length ?? 0;
    if (!group || waiting === 0) return false;
    endRest(name, group);
    return group.pending.length < waiting;
  }

  async function takeAlong<Result>(
    name: string,
    { answer, forMs }: { answer: Answer; forMs: number },
    otherCall: (requests: Request[]) => Promise<Result>,
  ): Promise<Result> {
    const group = groups.get(name);
    const taken = group?.pending.splice(0, maxPerCall) ?? [];
    if (!group || taken.length === 0) return otherCall([]);
    rest(name, group);
    // Emptied by whatever comes first: the answer, the failure, or the end of the patience.
    const goAlone = () => {
      if (taken.length > 0) void callWith(name, taken.splice(0));
    };
    const patience = setTimeout(goAlone, forMs);
    try {
      const result = await otherCall(taken.map(({ request }) => request));
      for (const { resolve } of taken.splice(0)) resolve(answer);
      return result;
    } finally {
      clearTimeout(patience);
      goAlone();
    }
  }

  function coalesced(
    name: string,
    request: Request,
    { signal, isHeld = false }: { signal?: AbortSignal; isHeld?: boolean } = {},
  ): Promise<Answer> {
    const group = groupOf(name);
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
    if (!isHeld) startCalls(name, group);
    return answered.finally(() => signal?.removeEventListener('abort', takeBack));
  }

  return Object.assign(coalesced, { hurry, takeAlong });
}
