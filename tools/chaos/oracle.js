/**
 * The simulated agent job service in a process of its own, so that it outlives workers and servers. It writes every
 * message to disk before it answers. Its argument is JSON: `{ options, tls?: { key, cert } }`, options of the simulator
 * and file names.
 *
 * Over IPC it says `{ ready: baseUrl }` and takes `{ arm: { projectId, step, hit } }`. At the message that is the hit
 * it says `{ reached: { id, projectId, step } }`, and holds the message until `{ release: id }`.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createServer } from 'node:tls';
import { startSimulator } from '../../dist/simulator/index.js';

const { options, tls } = JSON.parse(process.argv[2]);
/** @type {{ projectId: string, step: string, hit: number }[]} */
const arms = [];
/** @type {Map<number, () => void>} */
const held = new Map();
let lastId = 0;

async function onMessage({ projectId, step }) {
  const arm = arms.find((each) => each.projectId === projectId && each.step === step);
  if (arm === undefined || --arm.hit > 0) return;
  arms.splice(arms.indexOf(arm), 1);
  const id = ++lastId;
  const released = new Promise((resolve) => held.set(id, resolve));
  process.send({ reached: { id, projectId, step } });
  await released;
}

/** Ends TLS in front of the service and passes the bytes through. */
async function startTls(port, { key, cert }) {
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (secured) => {
    const plain = connect(port, '127.0.0.1');
    secured.pipe(plain).pipe(secured);
    secured.on('error', () => plain.destroy());
    plain.on('error', () => secured.destroy());
    secured.on('close', () => plain.destroy());
    plain.on('close', () => secured.destroy());
  });
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `https://localhost:${server.address().port}`;
}

process.on('disconnect', () => process.exit(0));
process.on('message', (message) => {
  if ('arm' in message) arms.push(message.arm);
  if ('disarm' in message) arms.splice(0);
  if ('release' in message) {
    held.get(message.release)?.();
    held.delete(message.release);
  }
});
const simulator = await startSimulator(options, onMessage);
process.send({ ready: tls === undefined ? simulator.baseUrl : await startTls(simulator.port, tls) });
