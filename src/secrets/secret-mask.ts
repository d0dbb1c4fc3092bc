export const MASK = '[masked]';

const HTML_ENTITIES: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  "'": '(?:apos|#0?39)',
};

/**
 * Creates a function that masks a secret in any text, in every encoding in which a service may echo a header: raw;
 * percent-encoded, JSON- or HTML-escaped (any character, in any mix, also escaped several times); hex, base64 and
 * base64url, also JSON-escaped or percent-encoded first. The secret may be alone or inside a longer encoded text, such
 * as `Bearer KEY`.
 *
 * @param secret printable ASCII, at least a few characters
 */
export function createSecretMask(secret: string): (text: string) => string {
  const spellings = [...new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])];
  const patterns = [
    Array.from(secret, escapedCharacter).join(''),
    ...spellings.map((spelling) => Buffer.from(spelling, 'utf8')).flatMap(encodedPatterns),
  ];
  // Every repetition in the patterns is bounded, so that a hostile text costs only linear time.
  const pattern = new RegExp(patterns.map((one) => `(?:${one})`).join('|'), 'g');
  return (text) => text.replace(pattern, MASK);
}

/** Most cached masks. Each takes about 100 kB of the 128 MB that V8 has for code. */
const MAX_CACHED_MASKS = 200;

/** Like {@link createSecretMask}, but caches the newest masks, because creating one takes milliseconds. */
export function createMaskCache(): (secret: string) => (text: string) => string {
  const masks = new Map<string, (text: string) => string>();
  return (secret) => {
    const known = masks.get(secret);
    if (known) return known;
    const mask = createSecretMask(secret);
    masks.set(secret, mask);
    const [oldest] = masks.keys();
    if (masks.size > MAX_CACHED_MASKS && oldest !== undefined) masks.delete(oldest);
    return mask;
  };
}

function encodedPatterns(bytes: Buffer): string[] {
  const hex = Array.from(bytes, hexByte).join('[\\s:,-]{0,2}');
  return [hex, ...[0, 1, 2].map((offset) => base64Pattern(bytes, offset))];
}

/** One character as itself, or percent-encoded, `\`-escaped, or as an HTML entity. */
function escapedCharacter(character: string): string {
  const code = character.charCodeAt(0);
  const literal = escapeRegExp(character);
  const hex = hexByte(code);
  const entity = HTML_ENTITIES[character];
  return [
    '(?:',
    literal,
    `|%(?:25){0,4}${hex}`,
    `|\\\\{1,8}(?:u00${hex}|x${hex}|${literal})`,
    `|&(?:amp;){0,2}#(?:0{0,6}${code}|[xX]0{0,6}${hex});`,
    entity === undefined ? '' : `|&(?:amp;){0,2}${entity};`,
    ')',
  ].join('');
}

/**
 * The secret inside base64 text after `offset` bytes (modulo 3): the characters that depend only on the secret, and
 * their neighbours that share bits with it.
 */
function base64Pattern(secret: Buffer, offset: number): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), secret]).toString('base64');
  const from = Math.ceil((offset * 8) / 6);
  const to = Math.floor(((offset + secret.length) * 8) / 6);
  const core = Array.from(encoded.slice(from, to), base64Character).join('\\s{0,4}');
  const sharesFirst = offset === 0 ? '' : '[A-Za-z0-9+/_-]?';
  return `${sharesFirst}${core}[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}`;
}

function base64Character(character: string): string {
  if (character === '+') return '(?:[+-]|%2[bB])';
  if (character === '/') return '(?:_|\\\\{0,8}/|%2[fF])';
  return character;
}

function hexByte(byte: number): string {
  return byte
    .toString(16)
    .padStart(2, '0')
    .replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
