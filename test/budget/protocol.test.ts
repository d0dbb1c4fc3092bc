import { describe, expect, it } from 'vitest';
import type { ZodType } from 'zod';
import { iso } from '../../src/common/index.js';
import { askSchema, fingerprint, followUpReportSchema, signalledReplySchema } from '../../src/protocol/index.js';
import { askOf, jobAtEnd, T0 } from './support.js';

const send = { workflowId: 'w', runId: 'r', sendNumber: 1 };
const outcomeReport = { kind: 'outcome', ...send, outcome: 'notSent', atMs: T0, refusal: 'payment', retryAfterMs: 5 };
const end = { kind: 'end', workflowId: 'w', runId: 'r', turnUntilMs: T0, jobAtEnd };
const grant = { runId: 'r', sendNumber: 1, grantedAtMs: T0, leaseMs: 1, overAtMs: T0 };
const pause = { by: 'operator', until: iso(T0), note: 'n' };
const waiting = { kind: 'waiting', runId: 'r', sendNumber: 1, reason: 'slot', position: 1, expectedAtMs: T0, pause };
const schemas: [what: string, ZodType, valid: object][] = [
  ['an ask', askSchema, askOf('a')],
  ['an outcome report', followUpReportSchema, outcomeReport],
  ['the report of an end', followUpReportSchema, end],
  ['a grant', signalledReplySchema, { kind: 'granted', ...grant, previousEnd: jobAtEnd }],
  ['a place in line', signalledReplySchema, waiting],
];

const noInstant = [Number.NaN, Infinity, -1, 1e15, '2026-01-01', null];
const noFingerprint = [{}, { ...jobAtEnd, status: 7 }, { ...jobAtEnd, prLink: 'x'.repeat(101) }, null];
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
  ...{ previousEnd: noFingerprint, jobAtEnd: noFingerprint },
  reason: ['boredom', undefined],
  position: [-1, 0.5, '1'],
  pause: [{}, { by: 'me' }, { by: 'operator', until: 'soon' }, { by: 'operator', note: 'x'.repeat(1_001) }, null],
};

describe.each(schemas)('the schema of %s', (_what, schema, valid) => {
  it('refuses whatever is no object with its fields', () => {
    for (const value of [undefined, null, 'ask', [valid], {}]) expect(schema.safeParse(value).success).toBe(false);
  });

  it.each(Object.keys(valid))('refuses each wrong value of the field "%s"', (field) => {
    for (const value of wrong[field]!) {
      expect(schema.safeParse({ ...valid, [field]: value }).success, String(value)).toBe(false);
    }
  });

  it('drops unknown fields, and keeps the others', () => {
    expect(schema.parse({ ...valid, unknown: 1 })).toEqual(valid);
  });
});

describe('the fingerprint of a job', () => {
  it('has a short hash in place of a long text', () => {
    const long = fingerprint({ prLink: 'https://example.com/a/b/pull/1' });
    expect(long).toEqual({ status: null, prLink: expect.stringMatching(/^.{11}$/), archivedAt: null });
  });

  it('distinguishes long texts that begin the same', () => {
    const one = fingerprint({ prLink: 'https://example.com/a/b/pull/1' });
    const other = fingerprint({ prLink: 'https://example.com/a/b/pull/2' });
    expect(one).not.toEqual(other);
  });
});
