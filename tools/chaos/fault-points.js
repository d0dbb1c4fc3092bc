/**
 * Preloaded into a worker process with `node --import`. Watches the send path and webhooks from outside the product. When a step is
 * reached for the chosen time, it kills or stops its own process with a signal that cannot be caught.
 *
 * `CHAOS_FAULT_PLAN` is the plan of worker-process.ts as JSON. Right before the signal, file descriptor 3 gets a line.
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

function reach(step) {
  if (step !== plan.step || ++hits !== plan.hit) return;
  writeSync(REPORT_DESCRIPTOR, `${step}\n`);
  process.kill(process.pid, plan.signal);
}

/** Watches the POSTs through undici's diagnostics channels: messages, and webhooks to the receiver in `test/support`. */
function watchHttp() {
  const isWebhook = ({ path }) => path === '/webhook';
  const isMessage = (request) => request.method === 'POST' && !isWebhook(request);
  // undici connects in the same turn of the event loop in which a request is made.
  let isOfMessage = false;
  const connectors = new WeakSet();
  subscribe('undici:request:create', ({ request }) => {
    isOfMessage = isMessage(request);
    setImmediate(() => (isOfMessage = false));
  });
  subscribe('undici:client:beforeConnect', ({ connector }) => isOfMessage && connectors.add(connector));
  subscribe('undici:client:connected', ({ connector }) => connectors.has(connector) && reach('connected'));
  const on = (channel, matches, step) => subscribe(channel, ({ request }) => matches(request) && reach(step));
  on('undici:client:sendHeaders', isMessage, 'headers-writing');
  on('undici:request:bodySent', isMessage, 'body-written');
  on('undici:request:trailers', isMessage, 'response-received');
  on('undici:request:bodySent', isWebhook, 'webhook-written');
  on('undici:request:trailers', isWebhook, 'webhook-responded');
}

/** Watches the activities' calls to Temporal: asks, and what they tell the budget about a send or a follow-up's end. */
function watchCalls({ Client }) {
  const nameOf = (path, request) => {
    if (path.endsWith('/ExecuteMultiOperation')) return 'ask';
    if (!path.endsWith('/SignalWorkflowExecution')) return undefined;
    return ['outcome', 'end'].find((kind) => Buffer.from(request).includes(`"kind":"${kind}"`));
  };
  const original = Client.prototype.makeUnaryRequest;
  // `request` is already encoded.
  Client.prototype.makeUnaryRequest = function (path, encode, decode, request, ...rest) {
    const name = nameOf(path, request);
    if (name !== undefined) {
      const callback = rest.pop();
      setTimeout(() => reach(`${name}-sent`), CALL_LEAVES_AFTER_MS);
      rest.push((error, result) => {
        if (!error) reach(`${name}-accepted`);
        callback(error, result);
      });
    }
    return original.call(this, path, encode, decode, request, ...rest);
  };
}

/** Watches the workflow tasks that the SDK's JavaScript has completed through its native core. */
function watchTasks({ native }, { coresdk }) {
  const { WorkflowActivationCompletion } = coresdk.workflow_completion;
  const complete = native.workerCompleteWorkflowActivation;
  native.workerCompleteWorkflowActivation = async (worker, bytes) => {
    await complete(worker, bytes);
    for (const command of WorkflowActivationCompletion.decodeDelimited(bytes).successful?.commands ?? []) {
      if (command.scheduleActivity?.activityType === 'sendMessage') reach('send-scheduled');
      // The answer to an ask, or the signal to a follow-up that has waited.
      const { data = [] } =
        command.updateResponse?.completed ?? command.signalExternalWorkflowExecution?.args?.[0] ?? {};
      if (Buffer.from(data).includes('"kind":"granted"')) reach('grant-recorded');
      if (command.completeWorkflowExecution ?? command.failWorkflowExecution) reach('end-recorded');
    }
  };
}

// Threads load this module too.
if (isMainThread) {
  // Standard input ends with the process that started this one.
  process.stdin.on('end', () => process.exit(1)).resume();
  process.stdin.unref();
}
if (isMainThread && plan !== null) {
  // The same copies that the product's Temporal libraries use.
  const resolve = createRequire(import.meta.url).resolve;
  const [ofClient, ofWorker] = ['@temporalio/client', '@temporalio/worker'].map((name) => createRequire(resolve(name)));
  watchHttp();
  watchCalls(ofClient('@grpc/grpc-js'));
  watchTasks(ofWorker('@temporalio/core-bridge'), ofWorker('@temporalio/proto'));
}
