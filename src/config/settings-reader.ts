import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { maskSecrets } from '../secrets.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';
import { keepSecretsOf } from './environment-secrets.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of this process. It is read only here; everything else receives it as an argument. */
export function processEnvironment(): Environment {
  return process.env;
}

/** One setting: its variable, its default, and what its text must be. */
export interface Setting<T> {
  name: string;
  fallback: T;
  schema: z.ZodType<T>;
}

const SHOWN_VALUE_LENGTH = 60;

/**
 * Reads settings one by one and collects all problems, so that they can be reported together. A variable that is empty
 * counts as not set, because compose files and shells write "not set" that way.
 */
export class SettingsReader {
  readonly #env: Environment;
  readonly #issues: ConfigIssue[] = [];

  constructor(env: Environment) {
    this.#env = env;
    keepSecretsOf(env);
  }

  /** The text of a variable; `undefined` if it is not set. */
  text(name: string): string | undefined {
    return this.#env[name]?.trim() || undefined;
  }

  /**
   * The value of a setting, or its default if it is not set. It is also the default after a bad value, so that the other
   * settings can be checked; {@link throwIfBad} reports the problem.
   */
  read<T>({ name, fallback, schema }: Setting<T>): T {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const parsed = schema.safeParse(text);
    if (parsed.success) return parsed.data;
    this.refuse(name, parsed.error.issues.map(({ message }) => message).join(', '), text);
    return fallback;
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
    let text: string;
    try {
      text = decodeUtf8(readFileSync(path));
    } catch (error) {
      const isText = error instanceof NotUtf8Error;
      // What is no path may be the secret itself.
      const isPath = isText || /^(?:\.{0,2}\/|~|[a-z]:[\\/])/i.test(path);
      const problem = isText ? `is ${error.message}` : `cannot be read: ${codeOf(error)}`;
      this.refuse(name, `the file ${problem}`, isPath ? path : undefined);
      return undefined;
    }
    try {
      return parse(text);
    } catch {
      this.refuse(name, `the file ${rule}`, path);
      return undefined;
    }
  }

  /**
   * Records a problem.
   *
   * @param value is shown, cut short; leave it out if it may hold a secret
   */
  refuse(name: string, rule: string, value?: string): void {
    const shown = value === undefined ? '' : ` (given ${JSON.stringify(cut(maskSecrets(value)))})`;
    this.#issues.push({ name, message: maskSecrets(`${rule}${shown}`) });
  }

  /** @throws {@link ConfigError} with everything that {@link read}, {@link file} and {@link refuse} found */
  throwIfBad(): void {
    if (this.#issues.length > 0) throw new ConfigError(this.#issues);
  }
}

/** Code of a failed call of the system, such as `ENOENT`; `error` if it is another kind of error. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'error';
}

function cut(text: string): string {
  return text.length > SHOWN_VALUE_LENGTH ? `${text.slice(0, SHOWN_VALUE_LENGTH)}…` : text;
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
  /** Of the command line. */
  readonly exitCode = 2;

  constructor(readonly issues: readonly ConfigIssue[]) {
    super(
      [
        issues.length === 1 ? 'A setting is wrong:' : `${issues.length} settings are wrong:`,
        ...issues.map(({ name, message }) => `  ${name}: ${message}`),
      ].join('\n'),
    );
  }
}
