import { test } from 'vitest';
import { expectRight } from './support.js';

test('under faults of every kind, the rules of the budget hold in seeds 501 to 3,000', { timeout: 600_000 }, () => {
  expectRight(501, 2_500);
});
