import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { InvalidInputError } from '../client/errors.js';
import { defined } from '../contract/defined.js';
import { parseDurationMs, parseInput } from '../contract/index.js';
import { type SimulatorOptions, simulatorOptionsSchema, startSimulator } from '../simulator/index.js';
import { type Cli, interruptible, UsageError } from './cli.js';
import { duration } from './command-options.js';

interface SimulatorCommandOptions {
  host?: string;
  port?: string;
  limit?: string;
  window?: string;
  turn?: string;
  seed?: string;
  autoCreate: boolean;
  ledgerFile?: string;
  options?: string;
}

/** `follow-up simulator` */
export async function runSimulator(cli: Cli, options: SimulatorCommandOptions): Promise<void> {
  const settings = await toSimulatorOptions(options);
  const { output } = cli;
  await interruptible(cli, async (signal) => {
    const simulator = await startSimulator(settings);
    try {
      const { baseUrl, apiKey } = simulator;
      output.data({ baseUrl, apiKey }, `AGENT_JOBS_BASE_URL=${baseUrl}\nAGENT_JOBS_API_KEY=${apiKey}`);
      output.note('simulated agent job service is up; Ctrl-C ends it');
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      await simulator.close();
    }
  });
}

async function toSimulatorOptions(options: SimulatorCommandOptions): Promise<SimulatorOptions> {
  const { host = '127.0.0.1', autoCreate, ledgerFile } = options;
  const turnMs = toMs('turn', options.turn ?? '4s');
  const parsed = parseInput(simulatorOptionsSchema, {
    host,
    port: toCount('port', options.port ?? '8080'),
    seed: toCount('seed', options.seed ?? '1'),
    autoCreate,
    limiter: {
      kind: 'sliding',
      limit: toCount('limit', options.limit ?? '100'),
      windowMs: toMs('window', options.window ?? '1h'),
    },
    turn: { minMs: Math.round(turnMs / 2), maxMs: Math.round(turnMs * 1.5) },
    ...defined({ ledgerFile }),
    ...(options.options !== undefined && (await readJson(options.options))),
  });
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  return parsed.value;
}

async function readJson(file: string): Promise<object> {
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
    throw new TypeError('it must hold a JSON object');
  } catch (error) {
    throw new UsageError(`--options: cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function toCount(option: string, text: string): number {
  if (!/^\d{1,10}$/.test(text))
    throw new UsageError(`--${option}: must be a whole number (given ${JSON.stringify(text)})`);
  return Number(text);
}

function toMs(option: string, text: string): number {
  const ms = parseDurationMs(duration(text));
  if (ms === undefined) {
    throw new UsageError(`--${option}: must be a duration, such as 500ms, 90s or 1h (given ${JSON.stringify(text)})`);
  }
  return ms;
}
