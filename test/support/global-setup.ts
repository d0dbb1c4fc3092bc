import type { TestProject } from 'vitest/node';
import { startDevServer } from '../../src/dev-server/index.js';
import { resolvePinned } from '../../src/dev-server/resolve.js';
import { OLDEST_TEMPORAL_CLI } from './pins.js';
import { testServerAge } from './temporal-server-binaries.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** `host:port` of the development server that all test files share. Use a task queue or a namespace of your own. */
    temporalAddress: string;
  }
}

/**
 * Starts one development server in memory for the whole run, the newest or the oldest supported one. Without a Temporal
 * binary, the run ends with one line.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const say = (message: string) => void process.stderr.write(`${message}\n`);
  try {
    if (testServerAge === 'oldest') {
      // The processes of the tests inherit it, so every server that a test starts has the same age.
      const options = { env: process.env, onProgress: say };
      process.env['TEMPORAL_CLI_PATH'] = await resolvePinned(OLDEST_TEMPORAL_CLI, options);
    }
    const server = await startDevServer({
      env: process.env,
      onProgress: say,
      // Operators may enable this, and then pause workflows in the UI.
      args: ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
    });
    project.provide('temporalAddress', server.address);
    return () => server.stop();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}
