/** What commander makes of `addSettingOptions`. */
export interface SettingOptions {
  lane?: string;
  onUnknownDelivery?: string;
  whenActive?: string;
  pollInitialInterval?: string;
  pollMaxInterval?: string;
  pollBackoffCoefficient?: string;
  settleTime?: string;
  jobTimeout?: string;
  budgetWaitTimeout?: string;
}

/** The settings that the options stand for, not checked yet. */
export function toSettings(options: SettingOptions): Record<string, unknown> {
  const { pollInitialInterval, pollMaxInterval, pollBackoffCoefficient } = options;
  const poll = given({
    initialInterval: duration(pollInitialInterval),
    maxInterval: duration(pollMaxInterval),
    backoffCoefficient: number(pollBackoffCoefficient),
  });
  return given({
    lane: options.lane,
    onUnknownDelivery: options.onUnknownDelivery,
    whenActive: options.whenActive,
    poll: Object.keys(poll).length > 0 ? poll : undefined,
    settleTime: duration(options.settleTime),
    jobTimeout: duration(options.jobTimeout),
    budgetWaitTimeout: duration(options.budgetWaitTimeout),
  });
}

/** The fields that have a value. */
export function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Digits alone are milliseconds. What is no duration goes on as it is, to be named with the other bad fields. */
export function duration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** Turns digits, with or without a fraction, into a number. Returns any other text unchanged. */
export function number(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
