/** A secret in every encoding, by the name of the encoding. */
export function spellingsOf(secret: string): Readonly<Record<string, string>> {
  const json = (text: string) => JSON.stringify(text).slice(1, -1);
  const url = encodeURIComponent(secret);
  const encodings = (name: string, text: string) => {
    const bytes = Buffer.from(text);
    const bases = ([0, 1, 2] as const).flatMap((offset) => [
      [`base64 of ${name} after ${offset} bytes`, base64Core(bytes, offset, 'base64')],
      [`base64url of ${name} after ${offset} bytes`, base64Core(bytes, offset, 'base64url')],
    ]);
    return [
      [`hex of ${name}`, bytes.toString('hex')],
      [`HEX of ${name}`, bytes.toString('hex').toUpperCase()],
      ...bases,
    ];
  };
  return Object.fromEntries([
    ['raw', secret],
    ['JSON-escaped', json(secret)],
    ['JSON-escaped twice', json(json(secret))],
    ['URL-encoded', url],
    ['URL-encoded, small letters', url.replace(/%../g, (code) => code.toLowerCase())],
    ...encodings('raw', secret),
    // The form in a payload that is JSON itself.
    ...encodings('JSON-escaped', json(secret)),
  ]) as Record<string, string>;
}

/** The characters that depend only on the secret, after `offset` bytes (modulo 3). */
function base64Core(secret: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), secret]).toString(encoding);
  return encoded.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + secret.length) * 8) / 6));
}

/** The encodings in which a text or bytes contain a secret. */
export function findSecret(secret: string, where: string | Buffer): string[] {
  return Object.entries(spellingsOf(secret)).flatMap(([name, spelling]) => (where.includes(spelling) ? [name] : []));
}

/** Every text in a value. Hidden properties count, because an error keeps its stack and its cause in them. */
export function textsHeldBy(value: unknown, seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || seen.has(value)) return [];
  seen.add(value);
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('utf8')];
  const held = value instanceof Map || value instanceof Set ? [...value].flat() : [];
  const properties = Object.entries(Object.getOwnPropertyDescriptors(value)).flatMap(([name, { value }]) => [
    name,
    value as unknown,
  ]);
  return [...held, ...properties].flatMap((each) => textsHeldBy(each, seen));
}

/** Every text in one of Temporal's messages: in its fields, in its payloads, and in JSON within these. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value, ...textsInJson(value)];
  if (value instanceof Uint8Array) return textsIn(Buffer.from(value).toString('utf8'));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => [name, ...textsIn(field)]);
}

function textsInJson(text: string): string[] {
  if (!/^\s*["[{]/.test(text)) return [];
  try {
    return textsIn(JSON.parse(text));
  } catch {
    return [];
  }
}
