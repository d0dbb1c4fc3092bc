import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { mutate } from '../../tools/mutants/mutant.js';
import { mutants } from '../../tools/mutants/mutants.js';

const read = (file: string) => readFile(join(import.meta.dirname, '..', '..', file), 'utf8');

test.each(mutants)('$name: the text that it replaces occurs exactly once', async (mutant) => {
  const texts = await mutate(mutant, read);
  for (const [file, text] of texts) expect(text).not.toBe(await read(file));
  expect(await read(mutant.test.file)).toContain("from 'vitest'");
});

test('there are at least twelve, each with its own name', () => {
  expect(mutants.length).toBeGreaterThanOrEqual(12);
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});

test('a text that does not occur exactly once is reported', async () => {
  const [mutant] = mutants;
  if (!mutant) throw new Error('no mutant');
  const { find } = mutant.edits[0];
  await expect(mutate(mutant, () => Promise.resolve(''))).rejects.toThrow('0 times');
  await expect(mutate(mutant, () => Promise.resolve(find + find))).rejects.toThrow('2 times');
});
