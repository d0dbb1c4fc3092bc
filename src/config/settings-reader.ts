import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { codeOf } from '../contract/text.js';
import { keepSecretsOf, maskSecrets } from '../secrets.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of this process. It is read only here; everything else receives it as an argument. */
export function processEnvironment(): Environment {
  return process.env;
}

/** One setting: its variable, what its text must be, and its default. */
export interface Setting<T> {
  name: string;
  schema: z.ZodType<T>;
  fallback: T;
  /** Its text is never shown. */
  isSecret?: boolean;
}

export function setting<T, Fallback extends T | undefined>(
  name: string,
  schema: z.ZodType<T>,
  fallback: Fallback,
): Setting<T | Fallback> {
  return { name, schema, fallback };
}

/** Like {@link setting}, for one whose text is never shown. */
export const secretSetting: typeof setting = (...args) => ({ ...setting(...args), isSecret: true });

/** The values of a table of settings, in the shape of the table. */
export type Values<Table> = { [K in keyof Table]: Table[K] extends Setting<infer T> ? T : Values<Table[K]> };

const SHOWN_VALUE_LENGTH = 60;

/**
 * Reads settings with `read`, and masks all secrets in them from now on.
 *
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function readSettings<T>(env: Environment, read: (settings: SettingsReader) => T): T {
  keepSecretsOf(env);
  const settings = new SettingsReader(env);
  const value = read(settings);
  if (settings.issues.length > 0) throw new ConfigError(settings.issues);
  return value;
}

/**
 * Reads settings, and collects all problems, so that they are reported together. A variable that is empty counts as not
 * set, because compose files and shells write "not set" that way. In the place of what is wrong comes the default, so
 * that the rest can be checked, too.
 */
export class SettingsReader {
  readonly issues: ConfigIssue[] = [];

  constructor(readonly env: Environment) {}

  /** The text of a variable; `undefined` if it is not set. */
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
   * What the file holds that a variable names. It is `undefined` if the variable is not set, the file cannot be read, or
   * `parse` throws. The text of the file is never shown.
   *
   * @param rule follows "the file" where `parse` throws
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
        // What is no path may be the secret itself.
        const isPath = /^(?:\.{0,2}\/|~|[a-z]:[\\/])/i.test(path);
        this.refuse(name, `the file cannot be read: ${code}`, isPath ? path : undefined);
      }
      return undefined;
    }
  }

  /** Records a problem. Leave out a `value` that may hold a secret: it is shown, cut short. */
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
  /** The rule, and what was given; never a key's value. */
  message: string;
}

/** The configuration is wrong. The message names every bad setting. The command line exits with code 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly type = 'ConfigError';
  readonly exitCode = 2;

  constructor(readonly issues: readonly ConfigIssue[]) {
    const lines = issues.map(({ name, message }) => `  ${name}: ${message}`);
    super([issues.length === 1 ? 'A setting is wrong:' : `${issues.length} settings are wrong:`, ...lines].join('\n'));
  }
}
