const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/**
 * 64-bit hash of a text as 11 characters of base64url. Not cryptographic: it keeps the budget's memory small. With the 7,500
 * ids that a budget remembers, two share a hash with a chance of 1.5e-12.
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
