import type { TestProject } from 'vitest/node';
import { startDevServer } from '../../src/embedded/dev-server.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** `host:port` of the development server that all test files share. Use a task queue or a namespace of your own. */
    temporalAddress: string;
  }
}

/** One development server for the whole run, in memory. Without a Temporal binary the run ends here, with one line. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const say = (message: string) => void process.stderr.write(`${message}\n`);
  try {
    const server = await startDevServer({
      env: process.env,
      onProgress: say,
      // Operators may have it, and then find its button in the UI.
      extraArgs: ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
    });
    project.provide('temporalAddress', server.address);
    return () => server.stop();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}
