import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import '../../src/workflows/shared-modules.js';

test('every schema that a shared module exports is frozen, so that workflows can share it', async () => {
  const strange: string[] = [];
  for (const folder of ['common', 'contract', 'protocol', 'budget']) {
    const directory = join(import.meta.dirname, '..', '..', 'src', folder);
    for (const file of readdirSync(directory)) {
      const module = (await import(join(directory, file))) as Record<string, unknown>;
      for (const [name, value] of Object.entries(module)) {
        const isSettled = value instanceof z.ZodType && Object.isFrozen(value);
        if (holdsSchema(value) && !isSettled) strange.push(`${folder}/${file}: ${name}`);
      }
    }
  }
  expect(strange).toEqual([]);
});

/** Whether a value is or holds a schema. The SDK would deeply freeze lists and plain objects. */
function holdsSchema(value: unknown): boolean {
  if (value instanceof z.ZodType) return true;
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsSchema);
}
