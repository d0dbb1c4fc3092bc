/** Replaces a secret. */
export const MASK = '[masked]';

/**
 * A spelling of a secret, as a row of units. A regular expression for all spellings of one key would take milliseconds to
 * compile and 100 kB of V8's 128 MB for code, so a thousand keys would end the process.
 */
interface Spelling {
  units: readonly string[];
  /** The characters with which the first unit can begin. */
  starts: readonly string[];
  /** Where `unit` ends if it stands at `at`, once for each way to read it. */
  endsOf: (text: string, at: number, unit: string) => readonly number[];
  /** What may stand between two units. */
  gap?: RegExp;
  /** The characters next to the units that also depend on the secret. */
  before?: RegExp;
  after?: RegExp;
}

/**
 * Creates a function that masks a secret in any text, in every encoding in which a service may echo a header. These
 * are: raw; percent-encoded, JSON- or HTML-escaped (any character, in any mix, also escaped several times); hex, base64
 * and base64url, also JSON-escaped or percent-encoded first. The secret may be alone or anywhere inside a longer text
 * that was encoded, such as `Bearer KEY`.
 *
 * @param secret printable ASCII, at least a few characters: each occurrence of it is masked
 */
export function createSecretMask(secret: string): (text: string) => string {
  const written = [...new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])];
  const spellings = [
    escapedSpelling(secret),
    ...written
      .map((one) => Buffer.from(one, 'utf8'))
      .flatMap((bytes) => [hexSpelling(bytes), ...base64Spellings(bytes)]),
  ];
  return (text) => {
    const found = spellings.flatMap((spelling) => placesOf(spelling, text)).sort(([a], [b]) => a - b);
    let masked = '';
    let shownTo = 0;
    for (const [from, to] of found) {
      // Two spellings may overlap.
      if (from >= shownTo) masked += text.slice(shownTo, from) + MASK;
      shownTo = Math.max(shownTo, to);
    }
    return masked + text.slice(shownTo);
  };
}

type Place = readonly [from: number, to: number];

function placesOf(spelling: Spelling, text: string): Place[] {
  const places: Place[] = [];
  for (const start of spelling.starts) {
    for (let from = text.indexOf(start); from >= 0;) {
      const to = endOf(spelling, text, from);
      if (to !== undefined) places.push([from - lengthAt(spelling.before, text, from - 1), to]);
      from = text.indexOf(start, to ?? from + 1);
    }
  }
  return places;
}

/** Every way to read the units is followed at once, so a hostile text costs time in proportion to its length. */
function endOf({ units, endsOf, gap, after }: Spelling, text: string, from: number): number | undefined {
  let reached: readonly number[] = [from];
  for (let index = 0; index < units.length; index++) {
    const unit = units[index] ?? '';
    const [first = from, ...others] = reached;
    // What stands between two units never begins one.
    const read = (at: number) => {
      const ends = endsOf(text, at, unit);
      return ends.length > 0 || index === 0 || !gap ? ends : endsOf(text, at + lengthAt(gap, text, at), unit);
    };
    reached = others.length === 0 ? read(first) : [...new Set(reached.flatMap(read))];
    if (reached.length === 0) return undefined;
  }
  const end = Math.max(...reached);
  return end + lengthAt(after, text, end);
}

/** The length of what the sticky `pattern` matches at `at`. */
function lengthAt(pattern: RegExp | undefined, text: string, at: number): number {
  if (pattern === undefined || at < 0) return 0;
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? 0;
}

function escapedSpelling(secret: string): Spelling {
  return {
    units: Array.from(secret),
    starts: [...new Set([secret.slice(0, 1), '%', '\\', '&'])],
    endsOf: escapedEnds,
  };
}

const MAX_PERCENT_ENCODINGS = 5;
const CODE_AFTER_BACKSLASH = /(?:u00|x)([0-9a-f]{2})/iy;
const MAX_BACKSLASHES = 8;
const ENTITY = /&(?:amp;){0,2}(?:#(?:0{0,6}(\d{1,3})|x0{0,6}([0-9a-f]{1,2}))|(amp|lt|gt|quot|apos));/iy;
const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** One character as itself, or percent-encoded, `\`-escaped, or as an HTML entity. */
function escapedEnds(text: string, at: number, character: string): number[] {
  const literal = text[at] === character ? [at + 1] : [];
  if (text[at] === '%') return [...literal, ...percentEnds(text, at, character)];
  if (text[at] === '\\') return [...literal, ...backslashEnds(text, at, character)];
  return text[at] === '&' ? [...literal, ...entityEnds(text, at, character)] : literal;
}

function percentEnds(text: string, at: number, character: string): number[] {
  const ends: number[] = [];
  for (let next = at + 1, count = 0; count < MAX_PERCENT_ENCODINGS; next += 2, count++) {
    const code = text.slice(next, next + 2);
    if (/^[0-9a-f]{2}$/i.test(code) && isCodeOf(code, character)) ends.push(next + 2);
    if (code !== '25') break;
  }
  return ends;
}

function backslashEnds(text: string, at: number, character: string): number[] {
  const ends: number[] = [];
  for (let next = at + 1; next <= at + MAX_BACKSLASHES && text[next - 1] === '\\'; next++) {
    const [all, code] = matchAt(CODE_AFTER_BACKSLASH, text, next);
    if (all !== undefined && isCodeOf(code, character)) ends.push(next + all.length);
    if (text[next] === character) ends.push(next + 1);
  }
  return ends;
}

function entityEnds(text: string, at: number, character: string): number[] {
  const [all, decimal, hex, name] = matchAt(ENTITY, text, at);
  if (all === undefined) return [];
  const read = name === undefined ? String.fromCharCode(Number(decimal ?? `0x${hex}`)) : NAMED[name.toLowerCase()];
  return read === character ? [at + all.length] : [];
}

function isCodeOf(hex: string | undefined, character: string): boolean {
  return Number.parseInt(hex ?? '', 16) === character.charCodeAt(0);
}

function matchAt(pattern: RegExp, text: string, at: number): readonly (string | undefined)[] {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? [];
}

const HEX_GAP = /[\s:,-]{0,2}/y;

function hexSpelling(bytes: Buffer): Spelling {
  const units = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'));
  const first = units[0]?.slice(0, 1) ?? '';
  const endsOf = (text: string, at: number, unit: string) =>
    text.slice(at, at + 2).toLowerCase() === unit ? [at + 2] : [];
  return { units, starts: [...new Set([first, first.toUpperCase()])], endsOf, gap: HEX_GAP };
}

const BASE64_GAP = /\s{0,4}/y;
const BASE64_CHARACTER = /[A-Za-z0-9+/_-]?/y;
const BASE64_END = /[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}/y;
/** How the two characters of base64 that are not letters or digits are written. */
const BASE64_SIGNS: Readonly<Record<string, RegExp>> = {
  '+': /[+-]|%2[bB]/y,
  '/': /_|\\{0,8}\/|%2[fF]/y,
};

/**
 * The secret inside a base64 text after 0, 1 or 2 bytes (modulo 3): the characters that depend only on the secret, and
 * next to them the ones that share bits with it.
 */
function base64Spellings(secret: Buffer): Spelling[] {
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), secret]).toString('base64');
    const from = Math.ceil((offset * 8) / 6);
    const to = Math.floor(((offset + secret.length) * 8) / 6);
    const units = Array.from(encoded.slice(from, to));
    return {
      units,
      starts: startsOfBase64(units[0] ?? ''),
      endsOf: base64Ends,
      gap: BASE64_GAP,
      ...(offset > 0 && { before: BASE64_CHARACTER }),
      after: BASE64_END,
    };
  });
}

function startsOfBase64(character: string): string[] {
  if (character === '+') return ['+', '-', '%'];
  return character === '/' ? ['/', '_', '\\', '%'] : [character];
}

function base64Ends(text: string, at: number, character: string): readonly number[] {
  const sign = BASE64_SIGNS[character];
  if (sign === undefined) return text[at] === character ? [at + 1] : [];
  const [all] = matchAt(sign, text, at);
  return all === undefined ? [] : [at + all.length];
}
