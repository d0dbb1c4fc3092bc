import { styleText } from 'node:util';
import type { Logger as TemporalLogger, LogLevel as TemporalLogLevel } from '@temporalio/common';
import { DefaultLogger } from '@temporalio/worker';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { LoggingConfig, LogLevel } from '../config/index.js';
import { plainText } from '../node/terminal-text.js';
import { maskSecrets } from '../secrets/secrets.js';

/** File descriptor of stderr: stdout is for data. */
const STDERR = 2;

/** Fields that only hold secrets. Secrets of the settings are masked everywhere. */
const SECRET_FIELDS = ['apiKey', 'api_key', 'authorization', 'Authorization', 'password', 'token'];

/** Most bytes of buffered lines; more are dropped. */
const MAX_WAITING_BYTES = 1_048_576;

/**
 * Creates a logger that writes to stderr synchronously, because the last lines before a crash matter most. Lines that
 * stderr does not accept, because its disk is full or its reader has closed it, are dropped, and the work continues.
 */
export function createLogger({ level, format }: LoggingConfig, destination?: DestinationStream): Logger {
  const target = destination ?? openStderr();
  const toLine = format === 'json' || destination !== undefined ? (line: string) => line : prettyLine;
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
    },
    { write: (line) => target.write(maskSecrets(toLine(line))) },
  );
}

function openStderr(): DestinationStream {
  const stderr = pino.destination({ dest: STDERR, sync: true, maxLength: MAX_WAITING_BYTES });
  // Unwritten lines are retried with the next one.
  stderr.on('error', () => undefined);
  return stderr;
}

const COLOURS: Readonly<Record<string, Parameters<typeof styleText>[0]>> = {
  debug: 'blue',
  info: 'green',
  warn: 'yellow',
  error: 'red',
};

const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const;

type LoggedError = Record<string, unknown> & { stack?: string };
type Line = Record<string, unknown> & { time: string; level: string; msg?: string };

/** Formats a line for a terminal: local time, level, message, the other fields as JSON, and the stack of an error. */
export function prettyLine(json: string): string {
  const { time, level, msg = '', pid: _pid, err, ...fields } = JSON.parse(json) as Line;
  const { stack, type: _type, message: _message, ...error } = (typeof err === 'object' ? err : {}) as LoggedError;
  const isPlain = stack === undefined;
  const rest = { ...fields, ...(err !== undefined && isPlain && { err }), ...(!isPlain && error) };
  const clock = new Date(time).toLocaleTimeString('sv-SE', TIME);
  // Respects NO_COLOR, FORCE_COLOR and terminals without colours.
  const colour = process.stderr.isTTY && process.stderr.hasColors() ? COLOURS[level] : undefined;
  const name = level.toUpperCase();
  const text = [
    clock,
    colour ? styleText(colour, name) : name,
    msg,
    Object.keys(rest).length > 0 ? JSON.stringify(rest) : '',
    stack === undefined ? '' : `\n    ${stack.replaceAll('\n', '\n    ')}`,
  ];
  return `${plainText(text.filter(Boolean).join(' ').replace(' \n', '\n'))}\n`;
}

/** The Temporal level that includes at least `level`. */
export function temporalLevel(level: LogLevel): TemporalLogLevel {
  return level === 'silent' ? 'ERROR' : (level.toUpperCase() as Uppercase<typeof level>);
}

/**
 * Creates a logger for Temporal's runtime. `target` is called for each line, because the runtime outlives the loggers
 * of tests.
 */
export function toTemporalLogger(target: () => Logger): TemporalLogger {
  return new DefaultLogger('TRACE', ({ level, message, meta }) => {
    // pino prints the stack of a field named `err`.
    const { error, ...fields } = meta ?? {};
    const name = level.toLowerCase() as Lowercase<typeof level>;
    target()[name](error === undefined ? fields : { ...fields, err: error }, message);
  });
}
