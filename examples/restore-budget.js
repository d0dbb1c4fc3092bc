// Restores the budget of a project whose workflow somebody terminated: node examples/restore-budget.js PROJECT
// Until then nothing is sent for the project. The state of the last run is read by query, which needs a running worker.
import process from 'node:process';
import { carriedStateQuery, projectBudgetWorkflowId } from 'agent-follow-up/contract';
import { Client, Connection } from '@temporalio/client';

const projectId = process.argv[2];
if (projectId === undefined) throw new Error('give the project id as the argument');
const connection = await Connection.connect({ address: 'localhost:7233' });
const { workflow } = new Client({ connection });
try {
  const workflowId = projectBudgetWorkflowId(projectId);
  const restored = await workflow.getHandle(workflowId).query(carriedStateQuery);
  // Fails while the budget runs.
  await workflow.start('projectBudget', {
    workflowId,
    taskQueue: 'follow-ups-budget',
    args: [{ projectId, settings: restored.settings, restored }],
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'FAIL',
  });
  process.stdout.write(`${workflowId} runs again\n`);
} finally {
  await connection.close();
}
