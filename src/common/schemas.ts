import { z } from 'zod';

// The workflow sandbox and strict Node.js policies refuse schemas compiled by `new Function`.
z.config({ jitless: true });

/** `z.object` with a type that keeps the documentation of the fields in declaration files. zod's own type maps them. */
export function object<Fields extends z.ZodRawShape>(fields: Fields): z.ZodObject<Fields> {
  return z.object(fields);
}

/** Epoch milliseconds up to the year 2100. Later times are mistakes, and may not fit into a `Date`. */
export const instantMsSchema = z.number().min(0).max(4_102_444_800_000);
