/** One setting that breaks a rule. */
export interface ConfigIssue {
  /** Name of the environment variable. */
  name: string;
  /** The rule, and what was given; never a key's value. */
  message: string;
}

/** The configuration is wrong; the message names every bad setting. The command line ends with exit code 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  constructor(readonly issues: readonly ConfigIssue[]) {
    super(
      [
        issues.length === 1 ? 'A setting is wrong:' : `${issues.length} settings are wrong:`,
        ...issues.map(({ name, message }) => `  ${name}: ${message}`),
      ].join('\n'),
    );
  }
}
