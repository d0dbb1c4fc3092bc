import { once } from 'node:events';
import { InvalidInputError } from '../client/errors.js';
import { parseStartInput, type StartInput } from '../client/index.js';
import { defined } from '../contract/defined.js';
import type { FollowUpResult, InputIssue } from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import { reportOf } from './errors.js';
import { type Cli, ExitCode, interruptible, UsageError } from './cli.js';
import { DEFAULT_PORTS, type DevPorts, type DevStack, isTemporalConfigured, startDevStack } from './dev-stack.js';
import { awaitFollowUp } from './follow-up.js';
import { type ProgressRow, showProgress } from './progress.js';
import { withTemporal } from './session.js';

interface DevOptions {
  exit?: boolean;
  project?: string;
  job?: string;
  prompt?: string;
  port?: string;
  uiPort?: string;
}

/** A follow-up that the stack ran, and its outcome. */
interface DevFollowUp {
  workflowId: string;
  uiUrl?: string;
  result?: FollowUpResult;
  error?: ReturnType<typeof reportOf>['report'];
}

/** `follow-up dev` */
export async function runDev(cli: Cli, options: DevOptions): Promise<ExitCode> {
  const own = ownFollowUp(options);
  const ports = parsePorts(options);
  if (Object.keys(ports).length > 0 && isTemporalConfigured(cli.env)) {
    throw new UsageError('--port and --ui-port are for a server that dev starts, and the settings name another');
  }
  return interruptible(cli, async (signal) => {
    const stack = await startStack(cli, ports, signal);
    try {
      const inputs = own ? [own] : stack.simulatorUrl === undefined ? [] : demonstration();
      const followUps = await Promise.race([sendAll(cli, stack, inputs, signal), stack.failed]);
      signal.throwIfAborted();
      report(cli, stack, followUps);
      if (options.exit !== true) {
        cli.output.note('Ctrl-C ends it');
        await Promise.race([once(signal, 'abort'), stack.failed]);
      }
      return followUps.every(({ result }) => result !== undefined && result.status !== 'failed')
        ? ExitCode.ok
        : ExitCode.followUpFailed;
    } finally {
      await stack.stop();
    }
  });
}

/** Starts the stack and shows its progress. @throws as {@link startDevStack} */
async function startStack(cli: Cli, ports: DevPorts, signal: AbortSignal): Promise<DevStack> {
  let stack: Promise<DevStack> | undefined;
  const work: ProgressRow['work'] = async (report) => {
    stack = startDevStack(cli, ports, (headline) => report({ headline, timing: '' }), signal);
    // The caller that awaits it reports its error.
    return stack.then(
      ({ uiUrl }) => (uiUrl === undefined ? 'ready' : `ready, Temporal UI at ${uiUrl}`),
      () => 'not started',
    );
  };
  await showProgress(cli.output, [{ label: 'stack', work }]);
  if (!stack) throw new Error('the progress view ran nothing');
  const started = await stack;
  sayOtherPorts(cli, started);
  return started;
}

/** Tells what other terminals need to find Temporal if it is not at its default port. */
function sayOtherPorts({ output }: Cli, { address, uiUrl }: DevStack): void {
  if (uiUrl === undefined) return;
  if (!address.endsWith(`:${DEFAULT_PORTS.port}`)) {
    output.note(`Temporal is not at its usual port ${DEFAULT_PORTS.port}; in other terminals first run:`);
    output.note(`  export TEMPORAL_ADDRESS=${address}`);
  }
  if (!uiUrl.endsWith(`:${DEFAULT_PORTS.uiPort}`)) {
    output.note(`the Temporal UI is not at its usual port ${DEFAULT_PORTS.uiPort}, but at ${uiUrl}`);
  }
}

/** @throws InvalidInputError naming every bad port */
function parsePorts({ port, uiPort }: DevOptions): DevPorts {
  const issues: InputIssue[] = [];
  const parse = (field: string, text: string | undefined) => {
    if (text === undefined) return undefined;
    const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
    if (number >= 1 && number <= 65_535) return number;
    issues.push({ field, message: `must be a port from 1 to 65535 (given ${JSON.stringify(text)})` });
    return undefined;
  };
  const ports = defined({ port: parse('port', port), uiPort: parse('ui-port', uiPort) });
  if (issues.length > 0) throw new InvalidInputError(issues);
  return ports;
}

/** The follow-up that the options describe, if any. */
function ownFollowUp({ project, job, prompt }: DevOptions): StartInput | undefined {
  if (project === undefined && job === undefined && prompt === undefined) return undefined;
  const { key, followUpInput } = parseStartInput({ projectId: project, jobId: job, prompt });
  return { ...followUpInput, key };
}

/** Four jobs of one project. */
function demonstration(): StartInput[] {
  const prompts = {
    'add-tests': 'Add tests for the parser.',
    'fix-login': 'The login page still shows the old logo: replace it.',
    'update-docs': 'Describe the new setting in the README.',
    'add-docstrings': 'Give every public function a docstring.',
  };
  return Object.entries(prompts).map(([jobId, prompt]) => ({
    projectId: 'demo',
    jobId,
    prompt,
    // The simulated agent needs only seconds.
    poll: { initialInterval: '500ms', maxInterval: '1s' },
  }));
}

async function sendAll(cli: Cli, stack: DevStack, inputs: StartInput[], signal: AbortSignal): Promise<DevFollowUp[]> {
  return withTemporal({ env: stack.env, output: cli.output }, async ({ followUps, config }) => {
    const started = await Promise.all(inputs.map((input) => followUps.start(input)));
    const awaited = started.map((followUp) => ({
      followUp,
      ...awaitFollowUp(followUp.workflowId.split('/').slice(1, 3).join('/'), followUp, signal),
    }));
    await showProgress(
      cli.output,
      awaited.map(({ row }) => row),
    );
    return awaited.map(({ followUp: { workflowId }, outcome }) => {
      const link = uiLink(stack.uiUrl, config.namespace, workflowId);
      const base = { workflowId, ...defined({ uiUrl: link }) };
      try {
        return { ...base, result: outcome() };
      } catch (error) {
        return { ...base, error: reportOf(error).report };
      }
    });
  });
}

function uiLink(uiUrl: string | undefined, namespace: string, workflowId: string): string | undefined {
  if (uiUrl === undefined) return undefined;
  return `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflowId)}`;
}

function report({ output }: Cli, stack: DevStack, followUps: DevFollowUp[]): void {
  const { address, namespace, uiUrl, simulatorUrl, statusUrl } = stack;
  const lines = followUps.map(({ workflowId, result, error }) => {
    const end = result ? `${result.status.padEnd(9)}  ${safeLine(result.prLink ?? 'no pull request')}` : '';
    return `${end}${error ? `${error.type}: ${safeLine(error.message)}` : ''}  ${workflowId}`;
  });
  const places = [
    `Temporal   ${address}, namespace ${namespace}`,
    uiUrl === undefined ? '' : `Temporal UI  ${uiUrl}`,
    simulatorUrl === undefined ? '' : `simulator  ${simulatorUrl}`,
    statusUrl === undefined ? '' : `worker     ${statusUrl}/metrics`,
  ];
  output.data(
    { temporal: { address, namespace, uiUrl }, simulatorUrl, statusUrl, followUps },
    [...lines, ...places].filter(Boolean).join('\n'),
  );
}
