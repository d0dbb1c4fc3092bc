// Restores the budget of a project whose workflow somebody terminated: node examples/restore-budget.js PROJECT
// Until then nothing is sent for the project. The state of the last run is read by query, which needs a running worker.
import process from 'node:process';
import { FollowUpClient } from 'agent-follow-up/client';
import { Client, Connection } from '@temporalio/client';

const projectId = process.argv[2];
if (projectId === undefined) throw new Error('give the project id as the argument');
const connection = await Connection.connect({ address: 'localhost:7233' });
try {
  const budget = new FollowUpClient({ client: new Client({ connection }) }).budget(projectId);
  const { workflowId, from } = await budget.restore();
  process.stdout.write(`${workflowId} runs again, begun with ${from}\n`);
} finally {
  await connection.close();
}
