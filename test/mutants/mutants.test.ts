import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { mutants, mutate } from '../../tools/mutants/mutants.js';

const read = (file: string) => readFile(join(import.meta.dirname, '..', '..', file), 'utf8');

test.each(mutants)('$name: the edit applies, and the test that catches it exists', async (mutant) => {
  for (const [file, text] of await mutate(mutant, read)) expect(text).not.toBe(await read(file));
  const titles = [...(await read(mutant.test.file)).matchAll(/\(\s*['"`]([^\n]+)['"`], (?:async )?\(/g)];
  const patterns = titles.map(([, title = '']) => title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/%\w/g, '.*'));
  expect(mutant.test.name).toMatch(new RegExp(`(${patterns.join('|')})$`));
});

test('an edit whose text is missing is reported', async () => {
  await expect(mutate(mutants[0]!, async () => '')).rejects.toThrow('not once but 0 times');
});
