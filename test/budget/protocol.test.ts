import { expect, test } from 'vitest';
import type { ZodType } from 'zod';
import { iso } from '../../src/common/index.js';
import { askSchema, fingerprint, followUpReportSchema, signalledReplySchema } from '../../src/protocol/index.js';
import { askOf, lastTurn, T0 } from './rules.js';

const send = { workflowId: 'w', runId: 'r', sendNumber: 1 };
const outcomeReport = { kind: 'outcome', ...send, outcome: 'notSent', atMs: T0, refusal: 'payment', retryAfterMs: 5 };
const end = { kind: 'end', workflowId: 'w', runId: 'r', turnUntilMs: T0, lastTurn };
const grant = { runId: 'r', sendNumber: 1, grantedAtMs: T0, leaseMs: 1, overAtMs: T0 };
const pause = { by: 'operator', until: iso(T0), note: 'n' };
const waiting = { kind: 'waiting', runId: 'r', sendNumber: 1, reason: 'slot', position: 1, expectedAtMs: T0, pause };
const right: [string, ZodType, object][] = [
  ['ask', askSchema, askOf('a')],
  ['outcome report', followUpReportSchema, outcomeReport],
  ['end', followUpReportSchema, end],
  ['grant', signalledReplySchema, { kind: 'granted', ...grant, lastTurn }],
  ['place in line', signalledReplySchema, waiting],
];

const noInstant = [Number.NaN, Infinity, -1, 1e15, '2026-01-01', null];
const noDuration = [Number.NaN, Infinity, -1, 1e12, '1m', null];
/** Values that a field must not have, wherever it is. */
const wrong: Record<string, unknown[]> = {
  kind: ['rubbish', 'full', 'earlierSend', 'otherMessage', undefined],
  workflowId: ['', 'x'.repeat(256), 7, null, undefined, {}],
  runId: ['', 'x'.repeat(256), 7, null, undefined, {}],
  sendNumber: [0, -1, 1.5, 1e9, '1', Number.NaN, undefined],
  lane: ['express', undefined],
  messageTag: ['x'.repeat(101), undefined],
  mayHaveSent: ['no', undefined],
  ...{ startedAtMs: noInstant, atMs: noInstant, turnUntilMs: noInstant, grantedAtMs: noInstant },
  ...{ overAtMs: noInstant, expectedAtMs: noInstant },
  ...{ leaseMs: [0, ...noDuration], drainMs: noDuration, retryAfterMs: noDuration },
  maxLimit: [-1, Infinity, Number.NaN, '9', undefined],
  outcome: ['fine', undefined],
  refusal: ['tired', null],
  lastTurn: [{}, { ...lastTurn, status: 7 }, { ...lastTurn, prLink: 'x'.repeat(101) }, null],
  reason: ['boredom', undefined],
  position: [-1, 0.5, '1'],
  pause: [{}, { by: 'me' }, { by: 'operator', until: 'soon' }, { by: 'operator', note: 'x'.repeat(1_001) }, null],
};

test.each(right)(
  'what arrives is no %s with a field that is wrong, and keeps nothing unknown',
  (_what, schema, value) => {
    for (const rubbish of [undefined, null, 'ask', [value], {}]) expect(schema.safeParse(rubbish).success).toBe(false);
    for (const field of Object.keys(value)) {
      for (const each of wrong[field]!) {
        expect(schema.safeParse({ ...value, [field]: each }).success, `${field}: ${String(each)}`).toBe(false);
      }
    }
    expect(schema.parse({ ...value, rubbish: 1 })).toEqual(value);
  },
);

test('fingerprints distinguish long texts without keeping them', () => {
  const [one, other] = ['1', '2'].map((end) => fingerprint({ prLink: `https://example.com/a/b/pull/${end}` }));
  expect(one).toEqual({ status: null, prLink: expect.stringMatching(/^.{11}$/), archivedAt: null });
  expect(one).not.toEqual(other);
});
