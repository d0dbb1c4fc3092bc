import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { meaningOf, responseMeanings } from '../../src/protocol/index.js';

it.each([
  [200, 'job', 'sent', 'job'],
  [200, 'unread', 'sent', 'job'],
  [204, 'none', 'sent', 'invalid-body'],
  [200, 'other', 'unknown', 'invalid-body'],
  [307, 'other', 'unknown', 'service'],
  [400, 'other', 'rejected', 'rejected'],
  [401, 'other', 'credentials', 'credentials'],
  [402, 'other', 'payment', 'payment'],
  [403, 'none', 'credentials', 'credentials'],
  [404, 'other', 'notFound', 'notFound'],
  [409, 'other', 'unknown', 'service'],
  [429, 'other', 'limited', 'limited'],
  [499, 'other', 'rejected', 'rejected'],
  [503, 'none', 'unknown', 'service'],
  [999, 'none', 'unknown', 'service'],
] as const)('HTTP %i with the body %s means %s for a message and %s for a read', (status, body, ofMessage, ofRead) => {
  expect(meaningOf(status, body)).toMatchObject({ ofMessage, ofRead });
});

it('the docs say of each response what it means for a message and for a read', async () => {
  const page = await readFile(new URL('../../docs/explanation/architecture.md', import.meta.url), 'utf8');
  const table = page.slice(
    page.indexOf('| the response '),
    page.indexOf('| none, as the request provably never began'),
  );
  const rows = table
    .split('\n')
    .slice(2, -1)
    .map((line) => line.split(/\s*\|\s*/).slice(1, 4));
  const shown = rows.map(([response, ...meanings]) => [/^[\dx, ]*[\dx]/.exec(response ?? '')?.[0], ...meanings]);
  const expected = responseMeanings.map(({ statuses, ofMessage, ofRead }) => [
    statuses.join(', '),
    `\`${ofMessage}\``,
    `\`${ofRead}\``,
  ]);
  expect(shown).toEqual(expected);
});
