import { z } from 'zod';

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Milliseconds as a whole number, or text such as `"90s"`, `"1.5h"`. */
export type DurationInput = number | string;

/** What a duration must be, as errors say it. */
export const DURATION_RULE = 'must be whole milliseconds, or text such as "500ms", "90s", "5m", "1h", "7d"';

/** Parses a duration to whole milliseconds; `undefined` if the value is not a duration. */
export function parseDurationMs(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  if (typeof value !== 'string') return undefined;
  const match = PATTERN.exec(value);
  if (!match) return undefined;
  const ms = Math.round(Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** Schema of a duration between two bounds, such as `'1s'`. Accepts {@link DurationInput} and returns milliseconds. */
export function durationSchema(min: string, max: string) {
  const minMs = parseDurationMs(min) ?? 0;
  const maxMs = parseDurationMs(max) ?? Number.MAX_SAFE_INTEGER;
  return z.union([z.number(), z.string()], { error: DURATION_RULE }).transform((value, context) => {
    const ms = parseDurationMs(value);
    if (ms === undefined) context.addIssue({ code: 'custom', message: DURATION_RULE });
    else if (ms < minMs || ms > maxMs) context.addIssue({ code: 'custom', message: `must be from ${min} to ${max}` });
    return ms ?? z.NEVER;
  });
}

/** Formats a duration with at most two units: `"1 h 5 min"`, `"45 s"`, `"250 ms"`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    `${Math.floor(seconds / 86_400)} d`,
    `${Math.floor(seconds / 3_600) % 24} h`,
    `${Math.floor(seconds / 60) % 60} min`,
    `${seconds % 60} s`,
  ];
  const isSet = (part: string) => !part.startsWith('0');
  const first = parts.findIndex(isSet);
  return parts
    .slice(first, first + 2)
    .filter(isSet)
    .join(' ');
}
