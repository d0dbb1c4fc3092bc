/** The code of an error that Node.js or undici throws, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Length of a text in bytes of UTF-8. The workflow sandbox has neither `Buffer` nor `TextEncoder`. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    // A surrogate pair takes 4 bytes; any other character above 11 bits takes 3.
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/**
 * 64-bit hash of a text as 11 characters of base64url, to keep the budget's memory small. Not cryptographic: among the
 * 7,500 ids that a budget remembers, the probability of any collision is 1.5e-12.
 */
export function hash64(text: string): string {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  let bits = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  let digits = '';
  for (let digit = 0; digit < 11; digit++) {
    digits += DIGITS[Number(bits & 63n)] ?? '';
    bits >>= 6n;
  }
  return digits;
}

/** Formats epoch milliseconds as ISO 8601 in UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
