import { describe, expect, it } from 'vitest';
import { describeUpdate, summariseUpdate } from '../../src/cli/follow-up-commands.js';
import { clock, toLines } from '../../src/cli/lines.js';
import { toMarkdown } from '../../src/common/index.js';
import {
  blockReasons,
  type FollowUpFacts,
  type FollowUpProgress,
  refusals,
  waitReasons,
} from '../../src/contract/index.js';
import { standingOf } from '../../src/follow-up/display.js';
import { describeFollowUp } from '../../src/follow-up/follow-up-details.js';
import { HOUR, MINUTE } from '../support/times.js';

const workflowId = 'follow-up/p/j/k';
const summary = { workflowId, projectId: 'p', jobId: 'j', key: 'k', status: 'running', startedAt: '' } as const;
const reasons = [...waitReasons, ...blockReasons];
type Reason = (typeof reasons)[number];

/** A time of day that is neither now nor in another expected time of the follow-up. */
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * MINUTE).toISOString();

/** What a follow-up shows while it waits for a reason, with times that are `sign` from now. */
function waiting(reason: Reason, sign: 1 | -1): FollowUpProgress {
  const facts: FollowUpFacts = { projectId: 'p', jobId: 'j', learnedAt: inMinutes(-600), polls: 0 };
  const isBudgets = waitReasons.some((each) => each === reason);
  if (isBudgets) facts.nextTryAt = inMinutes(sign * 120);
  if (reason === 'slot') Object.assign(facts, { position: 3, expectedSendAt: inMinutes(sign * 60) });
  const until = inMinutes(sign * 180);
  if (reason === 'paused') facts.pause = { by: 'operator', until };
  if (refusals.some((each) => each === reason)) facts.pause = { by: 'service', until };
  return { ...facts, waitsUntil: inMinutes(sign * 240), ...standingOf(reason) };
}

/** The lines of each surface. */
function surfaces(progress: FollowUpProgress): Record<string, string[]> {
  const nowMs = Date.now();
  const live = { ...progress, asOf: progress.learnedAt };
  const { headline, timing } = summariseUpdate({ summary, progress: live });
  return {
    'details in the UI': toMarkdown((at) => describeFollowUp(progress, workflowId, at, nowMs), nowMs).split('\n'),
    status: toLines(describeUpdate({ summary, progress: live })),
    'progress of send': [headline, ...timing.split(/, (?=[a-z ]+ \d)/)],
  };
}

const UNTIL = /^(- )?(send expected|tries again|asks again|gives up):? +.*\d\d:\d\d:\d\d/;
const timesOf = (progress: FollowUpProgress) => {
  const { expectedSendAt, nextTryAt, pause, waitsUntil } = progress;
  return [expectedSendAt, nextTryAt, pause?.until, waitsUntil].filter((at) => at !== undefined);
};

describe.each(reasons)('a follow-up that waits for the reason "%s"', (reason) => {
  it('says until when it waits, and what to do', () => {
    const { 'details in the UI': details = [], status = [] } = surfaces(waiting(reason, 1));
    for (const lines of [details, status]) {
      expect(lines.filter((line) => UNTIL.test(line))).not.toEqual([]);
      expect(lines).toContainEqual(expect.stringMatching(/^(- )?to do:? +\S/));
      expect(lines.join('\n')).not.toContain('overdue');
    }
  });

  it('shows no time that has passed as one that is still expected', () => {
    const progress = waiting(reason, -1);
    for (const [surface, lines] of Object.entries(surfaces(progress))) {
      for (const time of timesOf(progress)) {
        const isShown = (line: string) =>
          [clock(time), `${time.slice(11, 19)} UTC`].some((text) => line.includes(text));
        for (const line of lines.filter(isShown)) expect(line, surface).toContain('overdue');
      }
      if (surface === 'status') expect(lines.join('\n')).toMatch(/^as of +\S+/m);
    }
  });
});

it('the reasons have different headlines, also after the send', () => {
  const headlineOf = (progress: FollowUpProgress) =>
    describeFollowUp(progress, workflowId, (at) => at, Date.now()).headline;
  const before = reasons.map((reason) => headlineOf(waiting(reason, 1)));
  expect(new Set(before).size).toBe(reasons.length);
  const facts = { projectId: 'p', jobId: 'j', learnedAt: inMinutes(0), polls: 0 };
  const afterSend = [...refusals, ...blockReasons];
  for (const state of ['polling', 'reconciling'] as const) {
    const headlines = afterSend.map((waitReason) => headlineOf({ ...facts, state, waitReason }));
    expect(new Set(headlines).size).toBe(afterSend.length);
  }
});

it('a send that is overdue names the command that makes the follow-up ask at once', () => {
  const { nextSteps } = describeFollowUp(waiting('slot', -1), workflowId, clock, Date.now() + HOUR);
  expect(nextSteps).toContain(`to ask at once: \`follow-up poll-now ${workflowId}\``);
});
