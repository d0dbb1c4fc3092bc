import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { type Command, InvalidArgumentError } from 'commander';
import { parseDurationMs, parseInput } from '../contract/index.js';
import type { SimulatorOptions } from '../simulator/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { InvalidInputError } from '../client/index.js';
import { ExitCode } from './exit-codes.js';
import { interruptible } from './interrupt.js';
import { UsageError } from './report-error.js';

interface SimulatorCommandOptions {
  host: string;
  port: number;
  limit: number;
  window: number;
  turn: number;
  seed: number;
  autoCreate: boolean;
  ledgerFile?: string;
  options?: string;
}

/** `follow-up simulator` */
export function addSimulatorCommand(program: Command, cli: Cli): void {
  const command = program
    .command('simulator')
    .description('run a simulated agent job service; ids such as fail-1, slow-1, missing-1 decide how a job behaves')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', '0 takes any free port', wholeNumber, 8080)
    .option('--limit <messages>', 'messages a project and window', wholeNumber, 100)
    .option('--window <duration>', 'window of the limit', duration, 3_600_000)
    .option('--turn <duration>', 'how long the agent works on a message', duration, 4_000)
    .option('--seed <number>', 'all randomness comes from it', wholeNumber, 1)
    .option('--no-auto-create', 'jobs that nobody made do not exist')
    .option('--ledger-file <file>', 'append every message request to this file, one JSON a line')
    .option('--options <file>', 'JSON file with further options of the simulator; they win over the others');
  withCommonOptions(command, 'follow-up simulator --port 8080').action(async (options: SimulatorCommandOptions) => {
    cli.exitCode = await runSimulator(cli, options);
  });
}

async function runSimulator({ output }: Cli, options: SimulatorCommandOptions): Promise<ExitCode> {
  const settings = await toSimulatorOptions(options);
  const { startSimulator } = await import('../simulator/index.js');
  return interruptible(async (signal) => {
    const simulator = await startSimulator(settings);
    try {
      const { baseUrl, apiKey } = simulator;
      output.data({ baseUrl, apiKey }, `AGENT_JOBS_BASE_URL=${baseUrl}\nAGENT_JOBS_API_KEY=${apiKey}`);
      output.note('simulated agent job service is up; Ctrl-C ends it');
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      await simulator.close();
    }
    return ExitCode.ok;
  });
}

async function toSimulatorOptions(options: SimulatorCommandOptions): Promise<SimulatorOptions> {
  const { host, port, limit, window, turn, seed, autoCreate, ledgerFile } = options;
  const { simulatorOptionsSchema } = await import('../simulator/index.js');
  const parsed = parseInput(simulatorOptionsSchema, {
    host,
    port,
    seed,
    autoCreate,
    limiter: { kind: 'sliding', limit, windowMs: window },
    turn: { minMs: Math.round(turn / 2), maxMs: Math.round(turn * 1.5) },
    ...(ledgerFile !== undefined && { ledgerFile }),
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

function wholeNumber(text: string): number {
  if (!/^\d{1,10}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

function duration(text: string): number {
  const ms = parseDurationMs(/^\d+$/.test(text) ? Number(text) : text);
  if (ms === undefined) throw new InvalidArgumentError('It must be a duration, such as 500ms, 90s or 1h.');
  return ms;
}
