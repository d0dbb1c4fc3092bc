/**
 * Preloaded into a worker process with `node --import`. Watches the send path from outside the product. When the chosen
 * point is reached for the chosen time, it kills or stops its own process with a signal that cannot be caught.
 * fault-point-names.ts lists the points.
 *
 * `CHAOS_FAULT_PLAN` is JSON: `{ "point": name, "hit": from 1, "signal": "SIGKILL" | "SIGSTOP" }`. Without it nothing
 * happens until standard input ends. It writes a line to file descriptor 3 right before the signal.
 */
import { Buffer } from 'node:buffer';
import { subscribe } from 'node:diagnostics_channel';
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import process from 'node:process';
import { setImmediate, setTimeout } from 'node:timers';
import { isMainThread } from 'node:worker_threads';

const REPORT_DESCRIPTOR = 3;
/** Time for the bytes of a call to leave this process: the client writes them in later turns of the event loop. */
const CALL_LEAVES_AFTER_MS = 5;

const plan = JSON.parse(process.env['CHAOS_FAULT_PLAN'] ?? 'null');
let hits = 0;

function reach(point) {
  if (point !== plan.point || ++hits !== plan.hit) return;
  writeSync(REPORT_DESCRIPTOR, `${JSON.stringify({ ...plan, atMs: Date.now() })}\n`);
  process.kill(process.pid, plan.signal);
}

/** Watches the POST through the diagnostics channels of undici and Node. It ignores GETs. */
function watchHttp() {
  // undici connects in the same turn of the event loop in which a request is made.
  let isPostConnecting = false;
  subscribe('undici:request:create', ({ request }) => {
    if (request.method !== 'POST') return;
    isPostConnecting = true;
    setImmediate(() => (isPostConnecting = false));
  });
  const connectors = new WeakSet();
  subscribe('undici:client:beforeConnect', ({ connector }) => {
    if (!isPostConnecting) return;
    connectors.add(connector);
    reach('connecting');
  });
  subscribe('net.client.socket', ({ socket }) => {
    if (!isPostConnecting) return;
    isPostConnecting = false;
    socket.once('connect', () => reach('tcp-connected'));
  });
  subscribe('undici:client:connected', ({ connector }) => {
    if (connectors.has(connector)) reach('connected');
  });
  const onPost = (channel, point) =>
    subscribe(channel, ({ request }) => {
      if (request.method === 'POST') reach(point);
    });
  onPost('undici:client:sendHeaders', 'headers-writing');
  onPost('undici:request:bodySent', 'body-written');
  onPost('undici:request:headers', 'headers-received');
  onPost('undici:request:trailers', 'body-received');
}

/** What the budget is told at the steps. */
const KINDS = { settle: 'settle', finish: 'end' };

/** Watches the activities' calls to Temporal: asks, and words about how a send or a follow-up ended. */
function watchCalls(load) {
  const { Client } = load('@grpc/grpc-js');
  const told = (request) =>
    ['settle', 'finish'].filter((name) => Buffer.from(request).includes(`"kind":"${KINDS[name]}"`));
  const namesOf = { ExecuteMultiOperation: () => ['ask'], SignalWorkflowExecution: told };
  const original = Client.prototype.makeUnaryRequest;
  Client.prototype.makeUnaryRequest = function (path, ...rest) {
    // The request follows the functions that encode and decode. It is already encoded.
    const [, , request] = rest;
    const names = namesOf[path.slice(path.lastIndexOf('/') + 1)]?.(request) ?? [];
    if (names.length === 0) return original.call(this, path, ...rest);
    for (const name of names) reach(`${name}-sending`);
    const callback = rest.pop();
    const call = original.call(this, path, ...rest, (error, answer) => {
      if (!error) for (const name of names) reach(`${name}-answered`);
      callback(error, answer);
    });
    setTimeout(() => names.forEach((name) => reach(`${name}-sent`)), CALL_LEAVES_AFTER_MS);
    return call;
  };
}

/** Watches the tasks and completions that pass between the SDK's JavaScript and its native core. */
function watchTasks(load) {
  const { native } = load('@temporalio/core-bridge');
  const { coresdk } = load('@temporalio/proto');
  const { workflow_activation: activation, workflow_completion: completion, activity_task: task } = coresdk;

  around('workerPollWorkflowActivation', {
    after: (bytes) => {
      const { jobs } = activation.WorkflowActivation.decode(bytes);
      if (jobs.some((job) => job.initializeWorkflow?.workflowType === 'followUp')) reach('workflow-task-received');
    },
  });
  around('workerCompleteWorkflowActivation', {
    describe: (bytes) => {
      const commands = completion.WorkflowActivationCompletion.decodeDelimited(bytes).successful?.commands ?? [];
      return commands.map(commandName).filter((name) => name !== undefined);
    },
    before: (names) => names.forEach((name) => reach(`${name}-completing`)),
    after: (_answer, names) => names.forEach((name) => reach(`${name}-completed`)),
  });
  const sends = new Set();
  around('workerPollActivityTask', {
    after: (bytes) => {
      const { taskToken, start } = task.ActivityTask.decode(bytes);
      if (start?.activityType !== 'sendMessage') return;
      sends.add(Buffer.from(taskToken).toString('base64'));
      reach('activity-received');
    },
  });
  around('workerCompleteActivityTask', {
    describe: (bytes) => {
      const { taskToken } = coresdk.ActivityTaskCompletion.decodeDelimited(bytes);
      return sends.delete(Buffer.from(taskToken).toString('base64'));
    },
    before: (isSend) => isSend && reach('activity-completing'),
    after: (_answer, isSend) => isSend && reach('activity-completed'),
  });

  function around(method, { describe, before, after }) {
    const original = native[method];
    native[method] = async (worker, ...rest) => {
      const described = describe?.(...rest);
      before?.(described);
      const answer = await original(worker, ...rest);
      after?.(answer, described);
      return answer;
    };
  }
}

/** The step that a command of a workflow task stands for. The budget's answer to an ask is one too. */
function commandName(command) {
  if (command.scheduleActivity?.activityType === 'sendMessage') return 'send';
  const answer = command.updateResponse?.completed;
  if (answer && Buffer.from(answer.data ?? []).includes('"kind":"granted"')) return 'grant';
  if (command.completeWorkflowExecution ?? command.failWorkflowExecution) return 'end';
  return undefined;
}

// Threads load this module too.
if (isMainThread) {
  // Standard input ends with the process that started this one.
  process.stdin.on('end', () => process.exit(1)).resume();
  process.stdin.unref();
}
if (isMainThread && plan !== null) {
  const require = createRequire(import.meta.url);
  watchHttp();
  // The same copies that the product's Temporal libraries use.
  watchCalls(createRequire(require.resolve('@temporalio/client')));
  watchTasks(createRequire(require.resolve('@temporalio/worker')));
}
