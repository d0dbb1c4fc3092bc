import { describe, expect, it } from 'vitest';
import { toMarkdown } from '../../src/common/index.js';
import type { FollowUpFacts, FollowUpProgress, FollowUpStanding } from '../../src/contract/index.js';
import { describeFollowUp } from '../../src/follow-up/follow-up-details.js';

const at = '2026-01-02T03:04:05.000Z';
const nowMs = Date.UTC(2026, 0, 2, 12);
const workflowId = 'follow-up/p/j/k';

/** What the Temporal UI shows. */
function detailsOf(more: Partial<FollowUpFacts> & FollowUpStanding): string {
  const progress: FollowUpProgress = { projectId: 'p', jobId: 'j', learnedAt: at, polls: 0, ...more };
  return toMarkdown((at) => describeFollowUp(progress, workflowId, at, nowMs), nowMs);
}

describe('the details of a follow-up', () => {
  it('say what happens, the delivery, the job, its pull request, until when it waits, and what can be done', () => {
    const job = { status: 'active', prLink: 'https://x/1' };
    const seen = { job, jobSeenAt: at, jobStatus: 'active', prLink: job.prLink };
    const waitsUntil = '2026-01-03T03:04:05.000Z';
    expect(detailsOf({ state: 'polling', delivery: 'inferred', sentAt: at, waitsUntil, ...seen })).toBe(
      [
        '**sent 03:04:05 UTC, waiting for the agent, job `active`**',
        '',
        '- message: delivered 03:04:05 UTC (the job shows it)',
        '- job: `active`, seen 03:04:05 UTC',
        '- pull request: <https://x/1>',
        '- gives up: 2026-01-03 03:04:05 UTC',
        '- to do: no action is needed; to poll now: `follow-up poll-now follow-up/p/j/k`',
        '',
        '_As of 2026-01-02 12:00:00 UTC._ Newer: `follow-up status follow-up/p/j/k`, the pending activities, and the workflow `project-budget/p`',
      ].join('\n'),
    );
  });

  it('show text of the service and of operators as code, which cannot break the Markdown', () => {
    const hostile = '`\n# a **b** <https://evil.example>';
    const shown = "`' # a **b** <https://evil.example>`";
    const service = detailsOf({
      ...{ state: 'completed', sentAt: at, jobStatus: hostile, prLink: hostile },
      ...{ job: { status: hostile, prLink: hostile }, lastError: { at, message: hostile } },
    });
    for (const name of ['job', 'pull request', 'last error']) expect(service).toContain(`\n- ${name}: ${shown}`);
    const pause = { by: 'operator', note: hostile } as const;
    expect(detailsOf({ state: 'blocked', waitReason: 'paused', pause })).toContain(`is resumed (${shown})**\n`);
  });

  it('say that a job was read before this message, or possibly before it', () => {
    const seen = { job: { status: 'completed' }, jobSeenAt: at };
    expect(detailsOf({ state: 'polling', sentAt: at, ...seen })).toContain('`completed`, before this message, seen');
    expect(detailsOf({ state: 'reconciling', ...seen })).toContain('`completed`, possibly before this message, seen');
  });

  it.each<[reason: string, FollowUpStanding & Partial<FollowUpFacts>, headline: string, toDo: string]>([
    [
      'the service refuses all messages of the project',
      { state: 'blocked', waitReason: 'payment', pause: { by: 'service', statusCode: 402, until: at }, position: 2 },
      'blocked: the service answers 402, position 2',
      "check the project's account at the service; it continues automatically; to try at once: `follow-up budget resume p`",
    ],
    [
      'the service refuses this message alone',
      { state: 'blocked', waitReason: 'credentials', pause: { by: 'message', statusCode: 403, until: at } },
      'blocked: the service answers 403 to this message, but accepts others',
      'check the message for text that a firewall blocks, and its job; it continues automatically; to try at once: `follow-up budget resume p`',
    ],
    [
      'the project has no API key',
      { state: 'blocked', waitReason: 'credentials' },
      'blocked: the service answers 401 or 403, or the project has no API key',
      'check the API key of the project, and any firewall in front of the service; it continues automatically; to try at once: `follow-up poll-now follow-up/p/j/k`',
    ],
    [
      'its budget was stopped',
      { state: 'blocked', waitReason: 'budget-stopped' },
      "blocked: the project's budget was stopped",
      '`follow-up budget restore p`',
    ],
    [
      'its job cannot be read after the send',
      { state: 'polling', sentAt: at, waitReason: 'service' },
      'sent 03:04:05 UTC, waiting for the agent, but the job cannot be read, or is not found',
      'fix the agent job service or the connection to it; it continues automatically',
    ],
  ])('name the reason and the way out if %s', (_reason, more, headline, toDo) => {
    const details = detailsOf(more);
    expect(details).toContain(`**${headline}**\n`);
    expect(details).toContain(`\n- to do: ${toDo}\n`);
  });
});
