import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';

const COMMAND = fileURLToPath(new URL('../bin/follow-up.js', import.meta.url));

/**
 * Starts the simulated agent job service in a process of its own, so that it takes no time from what is measured.
 *
 * @param {import('../src/simulator/index.js').SimulatorOptions} options
 * @returns a client of its control interface, with `baseUrl`, `apiKey` and `close()`
 */
export async function startSimulatorProcess({ port = 0, seed = 1, ledgerFile, host = '127.0.0.1', ...options } = {}) {
  const flags = ['--json', '--host', host, '--port', String(port), '--seed', String(seed)];
  if (ledgerFile !== undefined) flags.push('--ledger-file', ledgerFile);
  const child = spawn(process.execPath, [COMMAND, 'simulator', ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
  // Kept open for as long as the process lives: it must never block on a full pipe.
  const errors = [];
  child.stderr.on('data', (data) => errors.push(data));
  const exit = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([once(lines, 'line'), exit.then(() => undefined)]);
  if (!first) throw new Error(`the simulator did not start:\n${Buffer.concat(errors).toString()}`);
  const { baseUrl, apiKey } = JSON.parse(first[0]);
  const close = async () => {
    child.kill('SIGTERM');
    await exit;
  };

  /** One request of the control interface; a refusal is thrown with its reason. */
  const control = async (method, path, body) => {
    const response = await request(`${baseUrl}/_simulator/${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const answer = await response.body.json();
    if (response.statusCode !== 200) throw new Error(`simulator: ${answer.error}`);
    return answer;
  };

  try {
    if (Object.keys(options).length > 0) await control('PATCH', 'options', options);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    baseUrl,
    apiKey: options.apiKey ?? apiKey,
    pid: child.pid,
    /** Message requests from an index on. */
    ledger: (from = 0) => control('GET', `ledger?from=${from}`),
    stats: () => control('GET', 'stats'),
    jobs: () => control('GET', 'jobs'),
    addJobs: (jobs) => control('POST', 'jobs', jobs),
    update: (patch) => control('PATCH', 'options', patch),
    failNext: (fault) => control('POST', 'faults', fault),
    clearFaults: () => control('DELETE', 'faults'),
    /** The most counted messages of a project in any rolling window. */
    maxInAnyWindow: async (projectId, windowMs) =>
      (await control('GET', `max-in-any-window?projectId=${projectId}&windowMs=${windowMs}`)).max,
    close,
  };
}
