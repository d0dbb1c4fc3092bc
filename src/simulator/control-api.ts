import { z } from 'zod';
import { plannedFaultSchema } from './fault-plan.js';
import { jobChangeSchema, newJobSchema } from './job-store.js';
import { parseOrThrow, type SimulatorUpdate } from './options.js';
import { maxInAnyWindow } from './ledger.js';
import type { ServiceState } from './service-state.js';

/** Path under which the control interface is served. */
export const CONTROL_PREFIX = '/_simulator/';

/** Counts since the start. */
export interface SimulatorStats {
  gets: number;
  posts: number;
  /** Messages that a job accepted. */
  accepted: number;
  /** Requests by the status of their answers, sent or meant to be sent; 0 for none. */
  answers: Record<string, number>;
  /** Faults that struck, by kind. */
  faults: Record<string, number>;
  /** Requests of other clients that were counted against the limit, by project. */
  outsiderRequests: Record<string, number>;
  redirectsFollowed: number;
  openConnections: number;
  mostConnections: number;
}

/** What the control interface needs from the server. */
interface ControlActions {
  stats(): SimulatorStats;
  update(patch: SimulatorUpdate): void;
}

interface ControlAnswer {
  status: number;
  body: unknown;
}

/** A single value or an array. Errors name the index. */
const oneOrMany = <T>(schema: z.ZodType<T>) =>
  z.preprocess((body) => (Array.isArray(body) ? (body as unknown[]) : [body]), z.array(schema));

/**
 * The control interface, for a simulator that runs in a process of its own. JSON in, JSON out:
 *
 * | request | does |
 * |---|---|
 * | `GET ledger?from=N` | every message request from index N on, default 0 |
 * | `GET stats` | counts |
 * | `GET jobs`, `POST jobs`, `PATCH jobs` | all jobs as they are; makes one or an array of them; changes one |
 * | `GET options`, `PATCH options` | options in force, keys masked; changes those that are given |
 * | `POST faults`, `DELETE faults` | plans a fault, or an array of them, for the next matching requests; drops them |
 * | `GET max-in-any-window?projectId=P&windowMs=N` | most counted messages in any rolling window |
 *
 * A body must be `application/json`, which keeps out web pages of other origins.
 */
export function control(
  state: ServiceState,
  actions: ControlActions,
  request: { method: string; url: URL; contentType: string | undefined; body: Buffer },
): ControlAnswer {
  const { method, url } = request;
  const resource = url.pathname.slice(CONTROL_PREFIX.length);
  try {
    switch (`${method} ${resource}`) {
      case 'GET ledger':
        return ok(state.ledger.entries.slice(numberParameter(url, 'from', 0)));
      case 'GET stats':
        return ok(actions.stats());
      case 'GET jobs':
        return ok(state.jobs.snapshots(Date.now()));
      case 'POST jobs':
        for (const job of parseBody(oneOrMany(newJobSchema))) state.jobs.add(job, Date.now());
        return ok(state.jobs.snapshots(Date.now()));
      case 'PATCH jobs':
        state.jobs.change(parseBody(jobChangeSchema));
        return ok(state.jobs.snapshots(Date.now()));
      case 'GET options':
        return ok(withoutKeys(state));
      case 'PATCH options':
        actions.update(parseBody(z.record(z.string(), z.unknown())));
        return ok(withoutKeys(state));
      case 'POST faults':
        for (const fault of parseBody(oneOrMany(plannedFaultSchema))) state.faults.add(fault);
        return ok({});
      case 'DELETE faults':
        state.faults.clear();
        return ok({});
      case 'GET max-in-any-window': {
        const projectId = url.searchParams.get('projectId') ?? '';
        const counted = countedInstants(state, projectId);
        return ok({ max: maxInAnyWindow(counted, numberParameter(url, 'windowMs', 3_600_000)) });
      }
      default:
        return { status: 404, body: { error: `${method} ${url.pathname} is not part of the control interface` } };
    }
  } catch (error) {
    return { status: 400, body: { error: error instanceof Error ? error.message : String(error) } };
  }

  function parseBody<T>(schema: z.ZodType<T>): T {
    if (!request.contentType?.startsWith('application/json')) throw new Error('Content-Type: must be application/json');
    return parseOrThrow(schema, JSON.parse(request.body.toString('utf8')), `${method} ${resource}`);
  }
}

/** When each message of a project was counted against the limit. */
export function countedInstants(state: ServiceState, projectId: string): number[] {
  return state.ledger.entries.flatMap((entry) =>
    entry.projectId === projectId && entry.countedAtMs !== null ? [entry.countedAtMs] : [],
  );
}

function withoutKeys({ settings }: ServiceState): unknown {
  const apiKeys = Object.fromEntries(Object.keys(settings.apiKeys).map((projectId) => [projectId, '***']));
  return { ...settings, apiKey: '***', apiKeys };
}

function numberParameter(url: URL, name: string, fallback: number): number {
  const text = url.searchParams.get(name);
  if (text === null) return fallback;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${name}: must be a whole number (given ${JSON.stringify(text)})`);
  return Number(text);
}

function ok(body: unknown): ControlAnswer {
  return { status: 200, body };
}
