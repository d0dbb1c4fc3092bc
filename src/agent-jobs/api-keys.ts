import { z } from 'zod';
import { idSchema } from '../contract/index.js';
import { watchFile } from '../node/text-file.js';
import { keepSecret } from '../secrets/secrets.js';

/** Shortest accepted API key. Every occurrence of a key is masked, and a shorter one would mask ordinary text. */
export const MIN_API_KEY_LENGTH = 8;

/** Follows "must be". */
export const KEY_RULE = `at least ${MIN_API_KEY_LENGTH} printable ASCII characters without spaces, not in quotes`;
// Docker's and kubectl's env files keep quotes, and a service would refuse the key.
const keySchema = z
  .string()
  .regex(new RegExp(`^(?!(["']).*\\1$)[\\x21-\\x7e]{${MIN_API_KEY_LENGTH},}$`), `must be ${KEY_RULE}`);
const keysFileSchema = z.record(idSchema, keySchema);

export interface ApiKeys {
  /** The key for a project's next request, or `undefined` if there is none. Never throws. */
  forProject(projectId: string): Promise<string | undefined>;
}

export interface WatchedApiKeys extends ApiKeys {
  /** The problem of a file of keys, with its path, if there is one. Never throws. */
  problem(): Promise<string | undefined>;
}

/** A project uses the first of `keysFile`, `keyFile` and `key` that has a key for it. */
interface ApiKeySource {
  /** A usable key: the settings refuse any other. */
  key?: string | undefined;
  /** Path of a file with one key for all projects. Ignores white space around the key. */
  keyFile?: string | undefined;
  /** Path of a JSON file `{ "projectId": "key" }`. */
  keysFile?: string | undefined;
  /**
   * Called once for each new problem of a file, whose last valid keys stay in use, and with `undefined` when the file
   * is usable again. Messages hold no keys.
   */
  onProblem?: ((file: string, problem: string | undefined) => void) | undefined;
}

/** Whether a key can be sent in a header and masked. */
export function isUsableApiKey(key: string): boolean {
  return keySchema.safeParse(key).success;
}

/**
 * Creates a source of keys from a literal, a file with one key, or a file with many. Files are read again at the first
 * use after a change, so the next request uses a rotated key.
 */
export function createApiKeys(source: ApiKeySource): WatchedApiKeys {
  const { key, keyFile, keysFile } = source;
  const keys = keysFile === undefined ? undefined : watchFile(keysFile, parseKeysFile, source);
  const single = keyFile === undefined ? undefined : watchFile(keyFile, parseKeyFile, source);
  return {
    problem: async () => (await keys?.())?.problem ?? (await single?.())?.problem,
    forProject: async (projectId) => (await keys?.())?.content?.get(projectId) ?? (await single?.())?.content ?? key,
  };
}

/**
 * Parses a text with one key. From now on the key is masked, even if it is refused.
 *
 * @throws Error that names the rule, not the key
 */
export function parseKeyFile(text: string): string {
  const key = text.trim();
  keepSecret(key);
  if (!isUsableApiKey(key)) throw new Error(`the key in it must be ${KEY_RULE}`);
  return key;
}

/**
 * Parses a text `{ "projectId": "key" }`. From now on all keys are masked, even if one is refused.
 *
 * @throws Error that names projects and rules, never a value
 */
export function parseKeysFile(text: string): ReadonlyMap<string, string> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error('not JSON; it must be an object { "projectId": "key" }');
  }
  for (const key of Object.values(json ?? {})) if (typeof key === 'string') keepSecret(key.trim(), 'literal');
  const parsed = keysFileSchema.safeParse(json);
  if (parsed.success) return new Map(Object.entries(parsed.data));
  const issues = parsed.error.issues.map((issue) => {
    const field = issue.path.join('.');
    const rule = issue.code === 'invalid_key' ? 'not a project id' : issue.message;
    return field === '' ? 'must be an object { "projectId": "key" }' : `${JSON.stringify(field)}: ${rule}`;
  });
  throw new Error(issues.join('; '));
}
