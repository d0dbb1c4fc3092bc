import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { codeOf } from '../common/index.js';
import { decodeUtf8, NotUtf8Error } from '../node/text-file.js';
import { keepSecretsOf, maskSecrets } from '../secrets/secrets.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of this process. Other code receives it as an argument. */
export function processEnvironment(): Environment {
  return process.env;
}

/** One setting: its variable, the rule of its text, and its default. */
export interface Setting<T> {
  name: string;
  schema: z.ZodType<T>;
  fallback: T;
  /** Whether its text is never shown. */
  isSecret?: boolean;
}

export function setting<T, Fallback extends T | undefined>(
  name: string,
  schema: z.ZodType<T>,
  fallback: Fallback,
): Setting<T | Fallback> {
  return { name, schema, fallback };
}

/** Like {@link setting}, for a setting whose text is never shown. */
export const secretSetting: typeof setting = (...args) => ({ ...setting(...args), isSecret: true });

/** The values of a table of settings, in the shape of the table. */
export type Values<Table> = { [K in keyof Table]: Table[K] extends Setting<infer T> ? T : Values<Table[K]> };

const SHOWN_VALUE_LENGTH = 60;

/**
 * Reads settings with `read`, and masks all their secrets from now on.
 *
 * @throws {@link ConfigError} that names every invalid setting
 */
export function readSettings<T>(env: Environment, read: (settings: SettingsReader) => T): T {
  keepSecretsOf(env);
  const settings = new SettingsReader(env);
  const value = read(settings);
  if (settings.issues.length > 0) throw new ConfigError(settings.issues);
  return value;
}

/**
 * Reads settings and collects all problems, to report them together. An empty variable counts as not set, as compose
 * files and shells write it. Invalid settings take their default, so that the others can be checked too.
 */
export class SettingsReader {
  readonly issues: ConfigIssue[] = [];

  constructor(readonly env: Environment) {}

  text(name: string): string | undefined {
    return this.env[name]?.trim() || undefined;
  }

  read<T>({ name, fallback, schema, isSecret }: Setting<T>): T {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const parsed = schema.safeParse(text);
    if (parsed.success) return parsed.data;
    this.refuse(name, parsed.error.issues.map(({ message }) => message).join(', '), isSecret ? undefined : text);
    return fallback;
  }

  readAll<Table extends object>(table: Table): Values<Table> {
    const read = (entry: Setting<unknown> | object) => ('schema' in entry ? this.read(entry) : this.readAll(entry));
    return Object.fromEntries(
      Object.entries(table).map(([key, entry]) => [key, read(entry as object)]),
    ) as Values<Table>;
  }

  /**
   * The parsed file that a variable names. `undefined` if the variable is not set, the file cannot be read, or `parse`
   * throws. Its text is never shown.
   *
   * @param rule follows "the file" if `parse` throws
   */
  file<T>(name: string, parse: (text: string) => T, rule = ''): T | undefined {
    const path = this.text(name);
    if (path === undefined) return undefined;
    try {
      return parse(decodeUtf8(readFileSync(path)));
    } catch (error) {
      const code = codeOf(error);
      if (error instanceof NotUtf8Error) this.refuse(name, `the file is ${error.message}`, path);
      else if (code === undefined) this.refuse(name, `the file ${rule}`, path);
      else {
        // A value that is not a path may be the secret itself.
        const isPath = /^(?:\.{0,2}\/|~|[a-z]:[\\/])/i.test(path);
        this.refuse(name, `the file cannot be read: ${code}`, isPath ? path : undefined);
      }
      return undefined;
    }
  }

  /** Records a problem. Omit a `value` that may hold a secret: it is shown, truncated. */
  refuse(name: string, rule: string, value?: string): void {
    const masked = value === undefined ? '' : maskSecrets(value);
    const cut = masked.length > SHOWN_VALUE_LENGTH ? `${masked.slice(0, SHOWN_VALUE_LENGTH)}…` : masked;
    this.issues.push({
      name,
      message: maskSecrets(value === undefined ? rule : `${rule} (given ${JSON.stringify(cut)})`),
    });
  }
}

/** One setting that breaks a rule. */
export interface ConfigIssue {
  /** Name of the environment variable. */
  name: string;
  /** The rule and the given value, but never a key's. */
  message: string;
}

/** Thrown for an invalid configuration. The message names every invalid setting. The command line exits with code 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly type = 'ConfigError';
  readonly exitCode = 2;

  constructor(readonly issues: readonly ConfigIssue[]) {
    const lines = issues.map(({ name, message }) => `  ${name}: ${message}`);
    super(
      [issues.length === 1 ? 'One setting is invalid:' : `${issues.length} settings are invalid:`, ...lines].join('\n'),
    );
  }
}
