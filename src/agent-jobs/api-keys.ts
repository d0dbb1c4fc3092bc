import { readFile, stat } from 'node:fs/promises';
import { z } from 'zod';
import { idSchema } from '../contract/ids.js';
import { codeOf } from '../contract/text.js';
import { keepSecret } from '../secrets.js';
import { decodeUtf8 } from '../text-file.js';

/** Shortest API key that is accepted. Every occurrence of a key is masked, and a shorter one would mask ordinary text. */
export const MIN_API_KEY_LENGTH = 8;

/** Follows "must be". */
export const KEY_RULE = `at least ${MIN_API_KEY_LENGTH} printable ASCII characters without spaces`;
const keySchema = z.string().regex(new RegExp(`^[\\x21-\\x7e]{${MIN_API_KEY_LENGTH},}$`), `must be ${KEY_RULE}`);
const keysFileSchema = z.record(idSchema, keySchema);

export interface ApiKeys {
  /** The key for a project's next request, or `undefined` if there is none. Never throws. */
  forProject(projectId: string): Promise<string | undefined>;
}

export interface WatchedApiKeys extends ApiKeys {
  /** Why a file of keys cannot be used now, with its path; `undefined` if all can be used. Never throws. */
  problem(): Promise<string | undefined>;
}

/** A project uses the first of `keysFile`, `keyFile` and `key` that has a key for it. */
export interface ApiKeySource {
  key?: string | undefined;
  /** Path of a file that holds one key for all projects. White space around the key is ignored. */
  keyFile?: string | undefined;
  /** Path of a JSON file `{ "projectId": "key" }`. */
  keysFile?: string | undefined;
  /**
   * Called once for each new problem with the reason why a file cannot be used (its last good keys stay in use), and
   * with `undefined` when it can be used again. No message holds a key.
   */
  onProblem?: ((file: string, problem: string | undefined) => void) | undefined;
}

/** Whether a key can be sent in a header and masked. */
export function isUsableApiKey(key: string): boolean {
  return keySchema.safeParse(key).success;
}

/**
 * Keys from a literal, a file, or a file of many. Files are read again at the first use after a change, so the very next
 * request uses a rotated key.
 *
 * @throws Error when no source is given, or the literal key is not usable; the message does not hold the key
 */
export function createApiKeys(source: ApiKeySource): WatchedApiKeys {
  const { key, keyFile, keysFile } = source;
  if (key === undefined && keyFile === undefined && keysFile === undefined) {
    throw new Error('API key: set at least one of key, keyFile, keysFile');
  }
  if (key !== undefined && !isUsableApiKey(key)) throw new Error(`API key: must be ${KEY_RULE} (value not shown)`);
  const keys = keysFile === undefined ? undefined : watchFile(keysFile, parseKeysFile, source);
  const single = keyFile === undefined ? undefined : watchFile(keyFile, parseKeyFile, source);
  return {
    problem: async () => (await keys?.())?.problem ?? (await single?.())?.problem,
    forProject: async (projectId) => (await keys?.())?.content?.get(projectId) ?? (await single?.())?.content ?? key,
  };
}

/**
 * The one key in a text, which is masked from now on, also where it is refused.
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
 * The keys of projects in a text `{ "projectId": "key" }`. All of them are masked from now on, also where one is refused.
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

/**
 * A file that changed less than this before it was read is read again at the next use: its time stamp would not show a
 * second change within its resolution (2 s on the coarsest file systems).
 */
const TIME_STAMP_RESOLUTION_MS = 2_000;

/**
 * Watches a file by checking its times of change, size and inode at each use. This also notices files that were
 * replaced by a rename or a symbolic link.
 *
 * @param parse throws an `Error` whose message says what is wrong, without secrets
 * @returns a function that looks at the file now: its newest good content, if there ever was any, and why the file cannot
 *   be used now, with its path. It never throws
 */
function watchFile<T>(path: string, parse: (text: string) => T, { onProblem }: ApiKeySource) {
  let content: T | undefined;
  let signature: string | undefined;
  let problem: string | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function refresh() {
    let found: string | undefined;
    try {
      const { mtimeMs, ctimeMs, size, ino } = await stat(path);
      const current = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (current === signature) return { content, problem: undefined };
      // Stored before reading: a change during the read shows as a difference at the next use.
      signature = Date.now() - Math.max(mtimeMs, ctimeMs) > TIME_STAMP_RESOLUTION_MS ? current : undefined;
      content = parse(decodeUtf8(await readFile(path)));
    } catch (error) {
      found = describe(error);
      signature = undefined;
    }
    if (found !== problem) onProblem?.(path, found);
    problem = found;
    return { content, problem: problem === undefined ? undefined : `${path}: ${problem}` };
  }

  return () => {
    // One after another: an older read must not overwrite a newer one.
    const next = last.then(refresh);
    last = next.catch(() => undefined);
    return next;
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'cannot be read';
  const code = codeOf(error);
  return code === undefined ? error.message : `cannot be read (${code})`;
}
