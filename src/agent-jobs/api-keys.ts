import { z } from 'zod';
import { idSchema } from '../contract/ids.js';
import { createWatchedFile, type WatchedFile } from './watched-file.js';

/** Shortest API key that is accepted: every occurrence of a key is masked, and a shorter one would mask plain words. */
export const MIN_API_KEY_LENGTH = 8;

const KEY_RULE = `must be at least ${MIN_API_KEY_LENGTH} printable ASCII characters without spaces`;
const keySchema = z.string().regex(new RegExp(`^[\\x21-\\x7e]{${MIN_API_KEY_LENGTH},}$`), KEY_RULE);
const keysFileSchema = z.record(idSchema, keySchema);

/** Where the API key of a project comes from. */
export interface ApiKeys {
  /** The key for a project's next request, or `undefined` if there is none. Never throws. */
  forProject(projectId: string): Promise<string | undefined>;
}

/** API keys, of which some may come from files. */
export interface WatchedApiKeys extends ApiKeys {
  /** Why a file of keys cannot be used now, with its path; `undefined` while all can. Never throws. */
  problem(): Promise<string | undefined>;
}

/** Sources of API keys. For a project the first of `keysFile`, `keyFile`, `key` that has one for it is used. */
export interface ApiKeySource {
  /** One key for all projects. */
  key?: string | undefined;
  /** Path of a file that holds one key for all projects; white space around it is ignored. */
  keyFile?: string | undefined;
  /** Path of a JSON file `{ "projectId": "key" }`. */
  keysFile?: string | undefined;
  /**
   * Told, once for each new problem, why a file cannot be used (its last good keys stay in use), and `undefined` when
   * it can be used again. No message holds a key.
   */
  onProblem?: ((file: string, problem: string | undefined) => void) | undefined;
}

/** Whether a key can be sent in a header and masked. */
export function isUsableApiKey(key: string): boolean {
  return keySchema.safeParse(key).success;
}

/**
 * Keys from a literal, a file, or a file of many. Files are read at the first use, and again at the use after they have
 * changed, so a rotated key is used by the very next request. A file that is missing, half-written or against the
 * rules is reported to `onProblem`, and the last good keys stay in use.
 *
 * @throws Error when no source is given, or the literal key is not usable; the message does not hold the key
 */
export function createApiKeys(source: ApiKeySource): WatchedApiKeys {
  const { key, keyFile, keysFile } = source;
  if (key === undefined && keyFile === undefined && keysFile === undefined) {
    throw new Error('API key: set exactly one of key, keyFile, keysFile');
  }
  if (key !== undefined && !isUsableApiKey(key)) throw new Error(`API key: ${KEY_RULE} (value not shown)`);
  const keys = keysFile === undefined ? undefined : watch(keysFile, parseKeysFile, source);
  const single = keyFile === undefined ? undefined : watch(keyFile, parseKeyFile, source);
  const files = [
    [keysFile, keys],
    [keyFile, single],
  ] as const;
  return {
    async problem() {
      for (const [path, file] of files) {
        const problem = await file?.problem();
        if (problem !== undefined) return `${path}: ${problem}`;
      }
      return undefined;
    },
    forProject: async (projectId) => (await keys?.read())?.get(projectId) ?? (await single?.read()) ?? key,
  };
}

function watch<T>(path: string, parse: (text: string) => T, { onProblem }: ApiKeySource): WatchedFile<T> {
  return createWatchedFile({ path, parse, onProblem: (problem) => onProblem?.(path, problem) });
}

function parseKeyFile(text: string): string {
  const parsed = keySchema.safeParse(text.trim());
  if (!parsed.success) throw new Error(`the key in it ${KEY_RULE}`);
  return parsed.data;
}

/** The messages name projects and rules, never a value. */
function parseKeysFile(text: string): ReadonlyMap<string, string> {
  let json: unknown;
  try {
    json = JSON.parse(text.trim());
  } catch {
    throw new Error('not JSON; it must be an object { "projectId": "key" }');
  }
  const parsed = keysFileSchema.safeParse(json);
  if (parsed.success) return new Map(Object.entries(parsed.data));
  const issues = parsed.error.issues.map((issue) => {
    const field = issue.path.join('.');
    const rule = issue.code === 'invalid_key' ? 'not a project id' : issue.message;
    return field === '' ? 'must be an object { "projectId": "key" }' : `${JSON.stringify(field)}: ${rule}`;
  });
  throw new Error(issues.join('; '));
}
