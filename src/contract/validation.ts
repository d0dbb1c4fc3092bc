import { z } from 'zod';
import { object } from '../common/index.js';

const SHOWN_VALUE_LENGTH = 60;
const MAX_FIELD_LENGTH = 200;
const MAX_ISSUES = 50;

/** Schema of {@link InputIssue}. */
export const inputIssueSchema = object({
  /** Path of the field, such as `poll.maxInterval`; empty for the input as a whole. */
  field: z.string(),
  /** The rule and the given value. */
  message: z.string(),
});
/** One broken rule of an input. */
export type InputIssue = z.infer<typeof inputIssueSchema>;

export type Parsed<T> = { ok: true; value: T } | { ok: false; issues: InputIssue[] };

/** Parses with a zod schema. The issues name every invalid field with its value. */
export function parseInput<T>(schema: z.ZodType<T>, input: unknown): Parsed<T> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return { ok: true, value: parsed.data };
  const issues = parsed.error.issues.flatMap((issue) => toInputIssues(issue, input));
  return { ok: false, issues: boundedIssues(issues) };
}

/** All issues in one line: `prompt: must not be empty (given ""); poll.maxInterval: ...`. */
export function describeIssues(issues: readonly InputIssue[]): string {
  return issues.map(({ field, message }) => (field ? `${field}: ${message}` : message)).join('; ');
}

/** Truncates issues so that a failure fits into a payload for any input. */
export function boundedIssues(issues: readonly InputIssue[]): InputIssue[] {
  const more = issues.length - MAX_ISSUES;
  return [
    ...issues.slice(0, MAX_ISSUES).map(({ field, message }) => ({ field: cut(field, MAX_FIELD_LENGTH), message })),
    ...(more > 0 ? [{ field: '', message: `and ${more} more` }] : []),
  ];
}

function toInputIssues(issue: z.core.$ZodIssue, input: unknown): InputIssue[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ field: [...path, key].join('.'), message: 'unknown field' }));
  }
  const value = valueAt(input, issue.path);
  const isMissing = value === undefined && issue.code === 'invalid_type';
  const rule = isMissing ? 'is required' : issue.message.replace(/^Invalid (input|option): /, '');
  if (value === undefined && rule.startsWith('is required')) return [{ field: path.join('.'), message: rule }];
  const shown = value === undefined ? 'missing' : `given ${show(value)}`;
  return [{ field: path.join('.'), message: `${rule} (${shown})` }];
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key], input);
}

function show(value: unknown): string {
  try {
    // Despite its type, `JSON.stringify` returns no text for a function or a symbol.
    const text = JSON.stringify(value) as unknown;
    return cut(typeof text === 'string' ? text : String(value), SHOWN_VALUE_LENGTH);
  } catch {
    // Nested too deeply for `JSON.stringify`, though not for `JSON.parse`.
    return Array.isArray(value) ? 'a list' : `an ${typeof value}`;
  }
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
