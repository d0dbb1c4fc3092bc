// Sends one follow-up to a stack that runs already, such as `npm start`: node examples/start-follow-up.js
// The same key is the same follow-up: run it again, and it prints the first result without a second message.
import process from 'node:process';
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient, FollowUpFailedError } from 'agent-follow-up/client';

const connection = await Connection.connect({ address: 'localhost:7233' });
const followUps = new FollowUpClient({ client: new Client({ connection }) });
try {
  const started = await followUps.start({
    projectId: 'demo',
    jobId: 'job-1',
    prompt: 'Add tests for the parser.',
    key: 'parser-tests',
  });
  for await (const { progress } of started.watch()) {
    process.stderr.write(`${progress?.state ?? 'starting'} ${progress?.job?.status ?? ''}\n`);
  }
  const result = await started.result();
  process.stdout.write(`${result.status} ${result.prLink}\n`);
} catch (error) {
  if (!(error instanceof FollowUpFailedError)) throw error;
  process.stderr.write(`${error.type}: ${error.message} (delivered: ${error.delivered})\n`);
  process.exitCode = 1;
} finally {
  await connection.close();
}
