import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { mutants, mutate } from '../../tools/mutants/mutants.js';

const read = (file: string) => readFile(join(import.meta.dirname, '..', '..', file), 'utf8');

test.each(mutants)('$name: the edit applies, and its test file exists', async (mutant) => {
  for (const [file, text] of await mutate(mutant, read)) expect(text).not.toBe(await read(file));
  expect(await read(mutant.test.file)).toContain("from 'vitest'");
});

test('there are at least twelve, each with its own name', () => {
  expect(mutants.length).toBeGreaterThanOrEqual(12);
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});

test.each([0, 2])('a text that occurs %i times is reported', async (times) => {
  const [mutant] = mutants;
  const text = mutant!.edits[0]![1].repeat(times);
  await expect(mutate(mutant!, async () => text)).rejects.toThrow(`not once but ${times} times`);
});
