import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';

const ajv = new Ajv2020({ allErrors: true, strict: false, formats: { 'date-time': true } });

/** Checks a value against a schema in `schemas`, as a caller in another language does. Returns its errors. */
export function schemaCheck(name: string): (value: unknown) => string[] {
  const path = join(import.meta.dirname, '..', '..', 'schemas', `${name}.schema.json`);
  const validate = ajv.compile(JSON.parse(readFileSync(path, 'utf8')) as object);
  return (value) =>
    validate(value) ? [] : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
