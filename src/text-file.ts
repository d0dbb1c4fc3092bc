/** Thrown for bytes that are not UTF-8. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';
}

/**
 * Decodes a file, or a line of it, and drops a byte order mark, which some editors write. All text files of users are
 * decoded here.
 *
 * @throws NotUtf8Error that names the encoding if it is recognisable
 */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(withoutBom(bytes));
  } catch (error) {
    throw error instanceof NotUtf8Error ? error : new NotUtf8Error('not UTF-8');
  }
}

/**
 * The bytes of a file with significant ASCII lines, such as PEM, without a byte order mark.
 *
 * @throws NotUtf8Error for UTF-16
 */
export function withoutBom(bytes: Uint8Array): Uint8Array {
  const start = Buffer.from(bytes.subarray(0, 3)).toString('hex');
  if (/^(?:fffe|feff)/.test(start)) throw new NotUtf8Error('UTF-16; the file must be UTF-8');
  return start === 'efbbbf' ? bytes.subarray(3) : bytes;
}
