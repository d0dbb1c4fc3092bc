import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';

const options = { allErrors: true, strict: false, formats: { 'date-time': true as const } };
const readers = {
  JavaScript: new Ajv2020(options),
  Python: new Ajv2020({ ...options, code: { regExp: Object.assign(asInPython, { code: '' }) } }),
};

/** Languages that read the same regular expression in different ways. */
export type Language = keyof typeof readers;

/** In Python, `$` also matches before a line feed at the end, `\d` is any digit of Unicode, and `\S` has another list. */
function asInPython(pattern: string, flags: string): RegExp {
  const python = { $: '(?=\\n?(?![^]))', '\\d': '\\p{Nd}', '\\S': '[^\\s\\x1c-\\x1f\\x85]' };
  return new RegExp(
    Object.entries(python).reduce((text, [from, to]) => text.replaceAll(from, to), pattern),
    flags,
  );
}

/** Checks a value against a schema in `schemas`, as a caller in another language does. Returns its errors. */
export function schemaCheck(name: string, language: Language = 'JavaScript'): (value: unknown) => string[] {
  const ajv = readers[language];
  const path = join(import.meta.dirname, '..', '..', 'schemas', `${name}.schema.json`);
  const validate = ajv.compile(JSON.parse(readFileSync(path, 'utf8')) as object);
  return (value) =>
    validate(value) ? [] : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
