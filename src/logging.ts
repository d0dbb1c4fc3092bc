import type { Logger as TemporalLogger, LogLevel as TemporalLogLevel, LogMetadata } from '@temporalio/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';
import type { LoggingConfig, LogLevel } from './config/index.js';

/** File descriptor of stderr: stdout is kept for data. */
const STDERR = 2;

/** Fields that never carry anything but a secret. Messages have theirs masked where they are made. */
const SECRET_FIELDS = ['apiKey', 'api_key', 'authorization', 'Authorization', 'password', 'token'];

/**
 * Makes the logger of a process. It writes to stderr, without delay: the last lines before a crash matter most.
 *
 * @param destination for tests
 */
export function createLogger({ level, format }: LoggingConfig, destination?: DestinationStream): Logger {
  const target = destination ?? (format === 'json' ? pino.destination({ dest: STDERR, sync: true }) : undefined);
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
    },
    target ??
      PinoPretty({
        destination: STDERR,
        sync: true,
        // Knows NO_COLOR, FORCE_COLOR and terminals that have none.
        colorize: process.stderr.isTTY && process.stderr.hasColors(),
        ignore: 'pid',
        translateTime: 'SYS:HH:MM:ss.l',
      }),
  );
}

const temporalLevels = {
  TRACE: 'trace',
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warn',
  ERROR: 'error',
} as const satisfies Record<TemporalLogLevel, LogLevel>;

/** The level of Temporal that lets through what `level` does, and perhaps more. */
export function temporalLevel(level: LogLevel): TemporalLogLevel {
  switch (level) {
    case 'trace':
      return 'TRACE';
    case 'debug':
      return 'DEBUG';
    case 'info':
      return 'INFO';
    case 'warn':
      return 'WARN';
    case 'error':
    case 'silent':
      return 'ERROR';
  }
}

/** A logger for Temporal's runtime. `target` is asked at each line, since the runtime outlives the loggers of tests. */
export function toTemporalLogger(target: () => Logger): TemporalLogger {
  const write = (level: TemporalLogLevel, message: string, metadata?: LogMetadata): void => {
    // Symbols are notes of the SDK to itself. pino prints the stack of what is called `err`.
    const { error, ...fields } = metadata ?? {};
    target()[temporalLevels[level]](error === undefined ? fields : { ...fields, err: error }, message);
  };
  return {
    log: write,
    trace: (message, metadata) => write('TRACE', message, metadata),
    debug: (message, metadata) => write('DEBUG', message, metadata),
    info: (message, metadata) => write('INFO', message, metadata),
    warn: (message, metadata) => write('WARN', message, metadata),
    error: (message, metadata) => write('ERROR', message, metadata),
  };
}
