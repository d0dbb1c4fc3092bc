import { createHmac } from 'node:crypto';
import type { LookupFunction } from 'node:net';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { Client } from 'undici';
import { DeadlineError, type HttpResponse, readResponse, withinDeadline } from '../agent-jobs/response.js';
import { parseRetryAfterMs } from '../agent-jobs/retry-after.js';
import { createSingleConnection } from '../agent-jobs/single-connection.js';
import { codeOf } from '../common/index.js';
import type { Webhook } from '../contract/index.js';
import { PACKAGE_VERSION } from '../node/package.js';
import type { WebhookRequest } from '../protocol/index.js';
import { createSerialLookup } from './lookup.js';
import type { WebhookTarget, WebhookTargets } from './targets.js';

/** Dependencies of the webhook activities. */
export interface WebhookDependencies {
  targets: () => Promise<WebhookTargets>;
  /** Whether links to pull requests are left out. */
  linksArePrivate: boolean;
  /** Attempts under way in this process. */
  maxAttempts: number;
  /** Says that the clock is wrong, by which a webhook is signed. @default not known to be */
  clockProblem?: () => string | undefined;
}

/** Deadline of one attempt, from connecting to the end of the response. */
const ATTEMPT_MS = 15_000;
/** Attempts under way to one target in this process. A slow receiver takes no more of the worker's activity slots. */
const MAX_ATTEMPTS = 10;
/** Of a target whose last attempt passed its deadline, until it responds. */
const MAX_ATTEMPTS_TO_SILENT = 1;
const FIRST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 3_600_000;
const MAX_RESPONSE_BYTES = 65_536;
/** HTTP 410: the receiver accepts no more webhooks: https://www.standardwebhooks.com. */
const GONE = 410;

/** The activities of webhooks. */
export function createWebhookActivities(dependencies: WebhookDependencies) {
  const { targets, linksArePrivate, maxAttempts, clockProblem } = dependencies;
  const lookup = createSerialLookup();
  const underWay: string[] = [];
  const silent = new Set<string>();
  return {
    /** Names of the targets in this worker's settings. */
    listTargets: async () => [...(await targets()).keys()],

    /**
     * Makes one attempt to deliver a webhook.
     *
     * @throws ApplicationFailure with the time of the next attempt. The URL is in no message
     */
    async deliverWebhook({ target: name, id, body }: WebhookRequest): Promise<void> {
      const target = (await targets()).get(name);
      if (!target) throw failed(`this worker has no webhook ${name}`);
      const toSame = underWay.filter((other) => other === name).length;
      const maxToSame = silent.has(name) ? MAX_ATTEMPTS_TO_SILENT : MAX_ATTEMPTS;
      if (toSame >= maxToSame || underWay.length >= maxAttempts) {
        throw failed(`${underWay.length} other attempts are under way, ${toSame} to ${name}`);
      }
      underWay.push(name);
      try {
        const text = JSON.stringify(linksArePrivate ? withoutLink(body) : body);
        const { response, error } = await post(target, id, text, lookup);
        if (response) silent.delete(name);
        else if (error instanceof DeadlineError) silent.add(name);
        if (!response) throw failed(`${name} does not answer: ${reasonOf(error)}`);
        const { statusCode, headers } = response;
        if (statusCode >= 200 && statusCode < 300) return;
        const leastMs = parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now());
        // A receiver refuses a signature whose time is more than 5 min off.
        const problem = clockProblem?.();
        const message = `${name} answers HTTP ${statusCode}${problem ? `; ${problem}` : ''}`;
        throw failed(message, { leastMs, nonRetryable: statusCode === GONE });
      } finally {
        underWay.splice(underWay.indexOf(name), 1);
      }
    },
  };
}

export type WebhookActivities = ReturnType<typeof createWebhookActivities>;

function withoutLink(body: Webhook): Webhook {
  if (body.type !== 'follow-up.ended') return body;
  const { prLink: _link, ...data } = body.data;
  return { ...body, data };
}

/** One POST on a connection of its own, without redirects, signed as https://www.standardwebhooks.com says. */
async function post(
  { url, secrets }: WebhookTarget,
  id: string,
  body: string,
  lookup: LookupFunction,
): Promise<{ response?: HttpResponse; error: unknown }> {
  const timestamp = Math.floor(Date.now() / 1_000);
  const sign = (secret: Buffer) =>
    `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  const headers = {
    'content-type': 'application/json',
    'user-agent': `agent-follow-up/${PACKAGE_VERSION}`,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': secrets.map(sign).join(' '),
  };
  const client = new Client(url.origin, {
    connect: createSingleConnection({ connectTimeoutMs: ATTEMPT_MS, lookup }).connect,
    maxResponseSize: MAX_RESPONSE_BYTES,
    // The deadline covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const attempt: { response?: HttpResponse } = {};
  const request = client.request({ method: 'POST', path: `${url.pathname}${url.search}`, headers, body });
  const error = await withinDeadline(ATTEMPT_MS, readResponse(request, attempt));
  void client.destroy().catch(() => undefined);
  return { ...attempt, error };
}

/** Without the error's own message, which has the host. */
function reasonOf(error: unknown): string {
  return error instanceof DeadlineError ? error.message : (codeOf(error) ?? 'the connection was lost');
}

/** Waits double from 5 s to 1 h, and vary, so that the webhooks of many ends drift apart. */
function failed(
  message: string,
  { leastMs = 0, nonRetryable = false }: { leastMs?: number | undefined; nonRetryable?: boolean } = {},
): ApplicationFailure {
  const { attempt } = Context.current().info;
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS) * (0.8 + 0.4 * Math.random());
  const nextRetryDelay = Math.ceil(Math.max(waitMs, leastMs));
  const numbered = `${message} (attempt ${attempt})`;
  return ApplicationFailure.create({ type: 'webhook', message: numbered, nonRetryable, nextRetryDelay });
}
