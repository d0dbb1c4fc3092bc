const UTF8_BOM = [0xef, 0xbb, 0xbf];
const UTF16_BOMS = [
  [0xff, 0xfe],
  [0xfe, 0xff],
];

/** Thrown for bytes that are not UTF-8. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';
}

/**
 * The text of a file, or of a line of it. A byte order mark, which some editors write, is left out. Every file of a user
 * that is text throughout is decoded by this function.
 *
 * @throws NotUtf8Error that names the encoding if it shows
 */
export function decodeUtf8(bytes: Uint8Array): string {
  refuseUtf16(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new NotUtf8Error('not UTF-8');
  }
}

/**
 * The bytes of a file of which only ASCII lines matter, such as one in PEM, without a byte order mark.
 *
 * @throws NotUtf8Error for UTF-16
 */
export function withoutBom(bytes: Uint8Array): Uint8Array {
  refuseUtf16(bytes);
  return startsWith(bytes, UTF8_BOM) ? bytes.subarray(UTF8_BOM.length) : bytes;
}

function refuseUtf16(bytes: Uint8Array): void {
  if (UTF16_BOMS.some((bom) => startsWith(bytes, bom))) throw new NotUtf8Error('UTF-16; the file must be UTF-8');
}

function startsWith(bytes: Uint8Array, bom: readonly number[]): boolean {
  return bom.every((byte, index) => bytes[index] === byte);
}
