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
    const value = this.#env[name];
    return value === undefined || value.trim() === '' ? undefined : value.trim();
  }

  /**
   * The parsed value of a variable, or `fallback` if it is not set. It is also `fallback` after a bad value, so that
   * the other settings can be checked; {@link throwIfBad} reports the problem.
   *
   * @param name of the environment variable
   * @param schema accepts the text
   * @param fallback the setting's default
   */
  read<T>(name: string, schema: z.ZodType<T>, fallback: T): T {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const parsed = schema.safeParse(text);
    if (parsed.success) return parsed.data;
    this.refuse(name, parsed.error.issues.map(({ message }) => message).join(', '), text);
    return fallback;
  }

  /**
   * The text of the file that a variable names; `undefined` if the variable is not set. It is also `undefined` if the
   * file cannot be read, or if `problemOf` finds a problem in its text, which is never shown.
   */
  fileText(name: string, problemOf: (text: string) => string | undefined = () => undefined): string | undefined {
    const path = this.text(name);
    if (path === undefined) return undefined;
    try {
      const text = decodeUtf8(readFileSync(path));
      const problem = problemOf(text);
      if (problem === undefined) return text;
      this.refuse(name, `the file ${problem}`, path);
    } catch (error) {
      if (error instanceof NotUtf8Error) {
        this.refuse(name, `the file is ${error.message}`, path);
        return undefined;
      }
      // What is no path may be the secret itself.
      const isPath = /^(?:\.{0,2}\/|~|[a-z]:[\\/])/i.test(path);
      this.refuse(name, `the file cannot be read: ${codeOf(error)}`, isPath ? path : undefined);
    }
    return undefined;
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

  /** @throws {@link ConfigError} with everything that {@link read} and {@link refuse} found */
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
