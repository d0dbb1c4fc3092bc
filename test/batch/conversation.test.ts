import { describe, expect, test } from 'vitest';
import {
  type Conversation,
  MAX_SILENCE_MS,
  newConversation,
  orderAnew,
  orderToSend,
  renewOrder,
  takeReport,
} from '../../src/batch/conversation.js';
import { addCounts } from '../../src/batch/outcome.js';
import type { PartReport } from '../../src/protocol/index.js';

const report = (number: number, order: number, open = 0): PartReport => ({
  ...{ part: 0, hash: 'h', number, order, open, counts: addCounts([]), ended: [] },
});

/** At 100 a part has started, with the order number 100. */
function startedConversation(): Conversation {
  const conversation = newConversation();
  orderAnew(conversation, 100);
  return conversation;
}

describe('the order of a part', () => {
  test('is sent once', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    expect(orderToSend(conversation)).toEqual({ number: 200, since: 100, share: 5 });
    expect(orderToSend(conversation)).toBeUndefined();
  });

  test('is sent again if the part still follows an older one', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    takeReport(conversation, report(300, 100));
    expect(orderToSend(conversation)).toMatchObject({ number: 200, share: 5 });
  });

  test('is sent again with a higher number if the part follows one that the batch does not know', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    takeReport(conversation, report(300, 250));
    expect(orderToSend(conversation)).toMatchObject({ number: 251, share: 5 });
  });

  test('is sent again with a higher number if the run that sent it no longer runs', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    takeReport(conversation, { ...report(300, 200), needsOrder: true });
    expect(orderToSend(conversation)).toMatchObject({ number: 201, share: 5 });
    expect(orderToSend(conversation)).toBeUndefined();
  });

  test('is sent with a higher number to a part that asks for one, but follows an order from before its restart', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    expect(takeReport(conversation, { ...report(300, 50), needsOrder: true })).toBe(false);
    expect(orderToSend(conversation)).toMatchObject({ number: 201, share: 5 });
  });

  test.each([{ share: 6 }, { share: 5, until: 3 }, { share: 5, cancel: true as const }])(
    'has a higher number if it changes to %o, even at the same time',
    (change) => {
      const conversation = startedConversation();
      renewOrder(conversation, { share: 5 }, 200);
      renewOrder(conversation, change, 200);
      expect(conversation.order).toEqual({ number: 201, since: 100, ...change });
    },
  );

  test('is not sent again as long as it stays the same and the part reports', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    takeReport(conversation, report(2_000, 200));
    renewOrder(conversation, { share: 5 }, 1_999 + MAX_SILENCE_MS);
    expect(orderToSend(conversation)).toBeUndefined();
  });

  test('is repeated after an hour without a report, once an hour', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    orderToSend(conversation);
    const nowMs = 200 + MAX_SILENCE_MS;
    renewOrder(conversation, { share: 5 }, nowMs);
    expect(orderToSend(conversation)).toMatchObject({ number: nowMs, share: 5 });
    renewOrder(conversation, { share: 5 }, nowMs + 1_000);
    expect(orderToSend(conversation)).toBeUndefined();
  });
});

describe('what a part may have open', () => {
  test('stays as it was until the part follows the smaller share', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    renewOrder(conversation, { share: 2 }, 300);
    expect(conversation.granted).toBe(5);
    takeReport(conversation, report(400, 200, 1));
    expect(conversation.granted).toBe(5);
    takeReport(conversation, report(500, 300, 1));
    expect(conversation.granted).toBe(2);
  });

  test('includes what is open from a larger share', () => {
    const conversation = startedConversation();
    renewOrder(conversation, { share: 5 }, 200);
    renewOrder(conversation, { share: 2 }, 300);
    takeReport(conversation, report(500, 300, 4));
    expect(conversation.granted).toBe(4);
  });
});

describe('a report', () => {
  test('counts once', () => {
    const conversation = startedConversation();
    expect(takeReport(conversation, report(300, 100))).toBe(true);
    expect(takeReport(conversation, report(300, 100))).toBe(false);
    expect(takeReport(conversation, report(299, 100))).toBe(false);
  });

  test('counts only if the part has received the order to report everything anew', () => {
    const conversation = startedConversation();
    const { number } = orderAnew(conversation, 200);
    expect(takeReport(conversation, report(300, 100))).toBe(false);
    expect(takeReport(conversation, report(301, number))).toBe(true);
  });
});

test('every later order asks for everything anew, because it may arrive first', () => {
  const conversation = startedConversation();
  const { number } = orderAnew(conversation, 200);
  renewOrder(conversation, { share: 5 }, 300);
  expect(orderToSend(conversation)).toEqual({ number: 300, since: number, share: 5 });
});
