import { once } from 'node:events';
import { TypedSearchAttributes } from '@temporalio/common';
import { z } from 'zod';
import { InvalidInputError, parseStartInput, type StartInput } from '../client/index.js';
import { type Environment, loadConfig, loadTemporalConfig, type WorkerConfig } from '../config/index.js';
import { SearchAttribute } from '../contract/index.js';
import { type DevServer, type OnProgress, startDevServer, USUAL_PORTS } from '../dev-server/index.js';
import { isPortFree } from '../node/tcp-ports.js';
import { safeLine } from '../node/terminal-text.js';
import { type Cli, ExitCode, interruptible, isLive, UsageError } from './cli.js';
import { reportOf } from './error-report.js';
import { progressRow } from './follow-up-commands.js';
import { rowsOf } from './lines.js';
import { showProgress, showRow } from './progress-rows.js';
import { withTemporal } from './session.js';

interface DevOptions {
  exit?: boolean;
  project?: string;
  job?: string;
  prompt?: string;
  port?: unknown;
  uiPort?: unknown;
}

type DevStack = Awaited<ReturnType<typeof startStack>>;

type Ports = Record<'port' | 'uiPort', number | undefined>;

/** Functions that stop the started parts, in the order of their start. */
type Closers = (() => Promise<unknown>)[];

/** `follow-up dev` */
export async function runDev(cli: Cli, options: DevOptions): Promise<ExitCode> {
  const own = ownFollowUp(options);
  const { port, 'ui-port': uiPort } = InvalidInputError.check(portsSchema, { ...options, 'ui-port': options.uiPort });
  const ports = { port, uiPort };
  if (Object.values(ports).some((port) => port !== undefined) && isTemporalConfigured(cli.env)) {
    throw new UsageError('--port and --ui-port are for a server that dev starts, but the settings name another');
  }
  return interruptible(cli, async (signal) => {
    const closers: Closers = [];
    try {
      const stack = await showStart(cli, (say) => startStack(cli, ports, closers, say, signal));
      const inputs = own ? [own] : stack.simulatorUrl === undefined ? [] : demonstration();
      const cut = AbortSignal.any([signal, stack.failed]);
      cut.throwIfAborted();
      const followUps = await sendAll(cli, stack, inputs, cut);
      cut.throwIfAborted();
      report(cli, stack, followUps);
      if (options.exit !== true) {
        cli.output.note('Ctrl-C ends it');
        if (!cut.aborted) await once(cut, 'abort');
        stack.failed.throwIfAborted();
      }
      if (followUps.some(({ error }) => error)) return ExitCode.followUpFailed;
      return followUps.some(({ result }) => result?.status === 'failed') ? ExitCode.jobFailed : ExitCode.ok;
    } catch (error) {
      // An interrupted part fails with its own error.
      throw signal.aborted ? signal.reason : error;
    } finally {
      for (const close of closers.reverse()) await close().catch((error: unknown) => cli.output.note(String(error)));
    }
  });
}

/** Shows the progress of the start, and how other terminals find Temporal. */
async function showStart({ output }: Cli, start: (say: OnProgress) => Promise<DevStack>): Promise<DevStack> {
  const stack = await showRow(output, {
    label: 'stack',
    work: (report) => start((headline) => report({ headline, timing: '' })),
    summarise: ({ uiUrl }) => (uiUrl === undefined ? 'ready' : `ready, Temporal UI at ${uiUrl}`),
  });
  const { address, uiUrl } = stack;
  if (uiUrl !== undefined && !address.endsWith(`:${USUAL_PORTS.port}`)) {
    output.note(`Temporal is not at its usual port ${USUAL_PORTS.port}; in other terminals first run:`);
    output.note(`  export TEMPORAL_ADDRESS=${address}`);
  }
  if (uiUrl !== undefined && !uiUrl.endsWith(`:${USUAL_PORTS.uiPort}`)) {
    output.note(`the Temporal UI is not at its usual port ${USUAL_PORTS.uiPort}, but at ${uiUrl}`);
  }
  return stack;
}

/** Long enough to be visible. */
const SIMULATED_TURN = { minMs: 1_000, maxMs: 2_500 };

/**
 * Starts Temporal unless one is configured, the simulated service unless a real one is configured, and a worker.
 *
 * @param closers receives a function for each started part
 */
async function startStack(cli: Cli, ports: Ports, closers: Closers, say: OnProgress, signal: AbortSignal) {
  let { env } = cli;
  // Loaded while Temporal starts.
  const modules = Promise.all([import('../worker.js'), import('../worker/logging.js'), cli.bundled]);
  modules.catch(() => undefined);
  let server: DevServer | undefined;
  if (!isTemporalConfigured(env)) {
    server = await startTemporal(env, ports, say, signal);
    // A graceful stop would take a second and save nothing, because everything is in memory.
    closers.push(server.kill);
    env = { ...without(env, 'TEMPORAL_'), TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: 'default' };
  }
  let simulatorUrl: string | undefined;
  if (!isSet(env, 'AGENT_JOBS_BASE_URL')) {
    const { startSimulator } = await import('../simulator/index.js');
    const simulator = await startSimulator({ autoCreate: true, turn: SIMULATED_TURN });
    closers.push(() => simulator.close());
    const { baseUrl, apiKey } = simulator;
    simulatorUrl = baseUrl;
    env = { ...without(env, 'AGENT_JOBS_API_'), AGENT_JOBS_BASE_URL: baseUrl, AGENT_JOBS_API_KEY: apiKey };
  }
  if (cli.bundled) say('bundling the workflows');
  const [{ startWorker }, { createLogger, prettyLine }] = await modules;
  signal.throwIfAborted();
  say('starting the worker');
  const config = await workerConfig(cli, env);
  const { logging, temporal } = config;
  // Log lines go above the live display.
  const write = (line: string) => cli.output.note((logging.format === 'json' ? line : prettyLine(line)).trimEnd());
  const logger = createLogger(logging, isLive(cli.output.stderr) ? { write } : undefined);
  const worker = await startWorker({ config, logger, signal });
  closers.push(() => worker.shutdown());
  const failed = new AbortController();
  void server?.exited.then(() => failed.abort(new Error(`the Temporal dev server has ended: ${server.lastOutput()}`)));
  worker.run().catch((error: unknown) => failed.abort(error));
  await Promise.race([worker.ready, worker.run()]);
  return {
    /** Includes the addresses of the started parts. */
    env,
    address: temporal.address,
    namespace: temporal.namespace,
    /** Missing if the server was not started here. */
    uiUrl: server?.uiUrl,
    /** Missing for a real service. */
    simulatorUrl,
    statusUrl: worker.statusUrl,
    /** Aborted when a part ends unexpectedly. */
    failed: failed.signal,
  };
}

async function startTemporal(env: Environment, ports: Ports, say: OnProgress, signal: AbortSignal): Promise<DevServer> {
  say('starting Temporal');
  const args = Object.values(SearchAttribute).map(
    ({ name, type }) => `--search-attribute=${name}=${TypedSearchAttributes.toMetadataType(type)}`,
  );
  return startDevServer({ env, onProgress: say, signal, ui: true, preferUsualPorts: true, args, ...ports });
}

/** The settings of the worker, which logs less than a separate worker, and uses any status port. */
async function workerConfig({ output }: Cli, env: Environment): Promise<WorkerConfig> {
  const FOLLOW_UP_LOG_LEVEL = env['FOLLOW_UP_LOG_LEVEL'] ?? 'error';
  const config = loadConfig({ ...env, FOLLOW_UP_LOG_LEVEL }, output.stderr.isTTY === true ? 'pretty' : 'json');
  const { status } = config;
  const isTaken = status && !isSet(env, 'FOLLOW_UP_STATUS_ADDRESS') && !(await isPortFree(status.port, status.host));
  return isTaken ? { ...config, status: { ...status, port: 0 } } : config;
}

/** Whether a server is configured, by an address, a profile, a file, or a default file with another address. */
function isTemporalConfigured(env: Environment): boolean {
  const names = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'];
  return names.some((name) => isSet(env, name)) || loadTemporalConfig(env).address !== `localhost:${USUAL_PORTS.port}`;
}

function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '').trim() !== '';
}

function without(env: Environment, prefix: string): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith(prefix)));
}

const PORT_RULE = 'must be a port from 1 to 65535';
const portSchema = z.int(PORT_RULE).min(1, PORT_RULE).max(65_535, PORT_RULE).optional();
const portsSchema = z.object({ port: portSchema, 'ui-port': portSchema });

function ownFollowUp({ project, job, prompt }: DevOptions): StartInput | undefined {
  if (project === undefined && job === undefined && prompt === undefined) return undefined;
  const { key, followUpInput } = parseStartInput({ projectId: project, jobId: job, prompt });
  return { ...followUpInput, key };
}

function demonstration(): StartInput[] {
  const prompts = {
    'add-tests': 'Add tests for the parser.',
    'fix-login': 'The login page still shows the old logo: replace it.',
    'update-docs': 'Describe the new setting in the README.',
    'add-docstrings': 'Give every public function a docstring.',
  };
  // The simulated agent takes only seconds.
  const poll = { initialInterval: '500ms', maxInterval: '1s' };
  return Object.entries(prompts).map(([jobId, prompt]) => ({ projectId: 'demo', jobId, prompt, poll }));
}

type Outcomes = Awaited<ReturnType<typeof sendAll>>;

async function sendAll(cli: Cli, stack: DevStack, inputs: StartInput[], signal: AbortSignal) {
  return withTemporal({ env: stack.env, output: cli.output }, async ({ followUps, config }) => {
    const started = await Promise.all(inputs.map((input) => followUps.start(input)));
    const rows = started.map((followUp) => progressRow(followUp, signal));
    const ended = await showProgress(cli.output, rows);
    return ended.map((end, index) => {
      const workflowId = started[index]?.workflowId ?? '';
      const page = `namespaces/${encodeURIComponent(config.namespace)}/workflows/${encodeURIComponent(workflowId)}`;
      return {
        workflowId,
        uiUrl: stack.uiUrl && `${stack.uiUrl}/${page}`,
        result: end.status === 'fulfilled' ? end.value : undefined,
        error: end.status === 'rejected' ? reportOf(end.reason).report : undefined,
      };
    });
  });
}

function report({ output }: Cli, stack: DevStack, followUps: Outcomes): void {
  const { address, namespace, uiUrl, simulatorUrl, statusUrl } = stack;
  const ends = followUps.map(({ workflowId, result, error }) => {
    const end = error ? `${error.type}: ${error.message}` : `${result?.status}  ${result?.prLink ?? 'no pull request'}`;
    return `${safeLine(end)}  ${workflowId}`;
  });
  const addresses = rowsOf([
    ['Temporal', `${address}, namespace ${namespace}`],
    ['Temporal UI', uiUrl],
    ['simulator', simulatorUrl],
    ['worker', statusUrl && `${statusUrl}/metrics`],
  ]);
  const text = [...ends, ...addresses].join('\n');
  output.data({ temporal: { address, namespace, uiUrl }, simulatorUrl, statusUrl, followUps }, text);
}
