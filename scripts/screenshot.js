// Takes the pictures in docs/images: node scripts/screenshot.js [path of Chromium]
// Starts a Temporal dev server with its UI, the simulated service and a worker, sends a few follow-ups, and shows the
// UI in a headless Chromium. Everything is on this machine: a request to anywhere else fails the run.
import { existsSync } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { chromium } from 'playwright-core';
import { FollowUpClient } from '../dist/client/index.js';
import { loadConfig } from '../dist/config.js';
import { processEnvironment } from '../dist/config/settings-reader.js';
import { SearchAttribute } from '../dist/contract/index.js';
import { startDevServer } from '../dist/embedded/dev-server.js';
import { createLogger } from '../dist/logging.js';
import { startSimulator } from '../dist/simulator/index.js';
import { startWorker } from '../dist/worker.js';

const IMAGES = fileURLToPath(new URL('../docs/images', import.meta.url));
const MAX_IMAGE_BYTES = 300 * 1024;
const WIDTH = 1440;
const PROJECT = 'web-shop';
/** Sends of the picture: the others wait for their slots. */
const BUDGET = 5;

const CHROMIUM_PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

/** What the pictures show: jobs whose agents are quick, or never done, and the follow-ups to them. */
const jobs = [
  { jobId: 'add-tests' },
  { jobId: 'fix-login' },
  { jobId: 'migrate-database', behaviour: { outcome: 'failed' } },
  { jobId: 'dark-mode', behaviour: { neverEnds: true } },
  { jobId: 'search-box', behaviour: { neverEnds: true } },
  { jobId: 'update-docs' },
  { jobId: 'add-docstrings' },
];
const quickPoll = { initialInterval: '1s', maxInterval: '2s' };
const followUpInputs = [
  { jobId: 'add-tests', key: 'parser-tests', prompt: 'Add tests for the parser.', poll: quickPoll },
  { jobId: 'fix-login', key: 'new-logo', prompt: 'The login page shows the old logo: replace it.', poll: quickPoll },
  { jobId: 'migrate-database', key: 'add-index', prompt: 'Add an index on orders.created_at.', poll: quickPoll },
  // Waits of 1 s, 7 s and 45 s, so that a long one is seen soon.
  {
    jobId: 'dark-mode',
    key: 'contrast',
    prompt: 'The contrast of the buttons is too low.',
    poll: { initialInterval: '1s', maxInterval: '45s', backoffCoefficient: 7 },
  },
  { jobId: 'search-box', key: 'typo', prompt: 'Find words with one typo, too.' },
  { jobId: 'update-docs', key: 'new-setting', prompt: 'Describe the new setting in the README.' },
  { jobId: 'add-docstrings', key: 'public-api', prompt: 'Give every public function a docstring.', lane: 'batch' },
  { jobId: 'dark-mode', key: 'follow-system', prompt: 'Follow the setting of the system.' },
];

const columns = ['Status', 'Workflow ID', 'FollowUpState', 'FollowUpJobStatus', 'FollowUpPrLink', 'Start'];

async function main() {
  const executablePath = process.argv[2] ?? CHROMIUM_PLACES.find((place) => existsSync(place));
  if (executablePath === undefined) throw new Error('no Chromium found: give its path as the argument');
  const closers = [];
  try {
    const stack = await startStack(closers);
    const browser = await chromium.launch({
      executablePath,
      args: [
        ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
        ...['--disable-background-networking', '--disable-component-update'],
      ],
    });
    closers.push(() => browser.close());
    const started = await sendAll(stack.followUps);
    await until('the long wait for the next poll', async () => {
      const { nextPollAt } = await started['dark-mode/contrast'].progress();
      return nextPollAt !== undefined && Date.parse(nextPollAt) - Date.now() > 30_000;
    });
    await until('every state in the list', async () => (await states(stack.followUps)).length === 8);
    await takePictures(browser, stack);
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

async function startStack(closers) {
  const env = processEnvironment();
  const server = await startDevServer({
    env,
    ui: true,
    searchAttributes: Object.values(SearchAttribute),
    onProgress: (message) => void process.stderr.write(`${message}\n`),
  });
  closers.push(() => server.stop());
  const simulator = await startSimulator({ turn: { minMs: 1_500, maxMs: 3_000 }, initialPrLink: false });
  closers.push(() => simulator.close());
  for (const job of jobs) simulator.addJob({ projectId: PROJECT, ...job });
  const config = loadConfig({
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_BUDGET_LIMIT: String(BUDGET),
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    FOLLOW_UP_LOG_LEVEL: 'error',
  });
  const worker = await startWorker({ config, logger: createLogger(config.logging) });
  closers.push(() => worker.shutdown());
  await worker.ready;
  const connection = await Connection.connect({ address: server.address });
  closers.push(() => connection.close());
  return { uiUrl: server.uiUrl, followUps: new FollowUpClient({ client: new Client({ connection }) }) };
}

/** One after the other, so that each has the place in the queue that the picture shows. */
async function sendAll(followUps) {
  const started = {};
  for (const input of followUpInputs) {
    const followUp = await followUps.start({ projectId: PROJECT, ...input });
    await until(`${followUp.workflowId} to have asked for its slot`, async () => {
      const { status, state } = await followUp.describe();
      return status !== 'running' || (state !== undefined && state !== 'sending');
    });
    started[`${input.jobId}/${input.key}`] = followUp;
  }
  return started;
}

async function states(followUps) {
  const found = [];
  for await (const { status, state } of followUps.list({ project: PROJECT })) {
    const isSettled =
      status !== 'running' || ['polling', 'waiting-for-budget', 'waiting-for-job'].includes(state ?? '');
    if (isSettled) found.push(state);
  }
  return found;
}

async function takePictures(browser, { uiUrl }) {
  const context = await browser.newContext({ viewport: { width: WIDTH, height: 900 }, colorScheme: 'light' });
  await context.route(
    (url) => url.origin !== uiUrl && url.protocol !== 'data:' && url.protocol !== 'blob:',
    async (route) => {
      process.exitCode = 1;
      process.stderr.write(`refused a request to ${route.request().url()}\n`);
      await route.abort();
    },
  );
  await context.addInitScript(
    (table) => {
      globalThis.localStorage.setItem('namespace-workflow-table-columns', JSON.stringify(table));
    },
    { default: columns.map((label) => ({ label })) },
  );
  const page = await context.newPage();
  const workflow = (id) => `${uiUrl}/namespaces/default/workflows/${encodeURIComponent(id)}`;

  await page.goto(workflow(`follow-up/${PROJECT}/dark-mode/contrast`));
  await page
    .getByText(/next poll in (4\d|50) s/)
    .first()
    .waitFor();
  await picture(page, 'timeline.png', 900);

  await page.getByText('User Metadata').first().click();
  await markdown(page, 'sent, waiting for the agent');
  await picture(page, 'details.png', 900);

  await page.goto(`${uiUrl}/namespaces/default/workflows?query=${encodeURIComponent('`WorkflowType`="followUp"')}`);
  await page.getByText('waiting-for-budget').nth(1).waitFor();
  await page
    .getByRole('button', { name: /saved views/i })
    .first()
    .click()
    .catch(() => undefined);
  await picture(page, 'list.png', 580);

  await page.goto(workflow(`project-budget/${PROJECT}`));
  await page.getByText('User Metadata').first().click();
  await markdown(page, `${BUDGET} of ${BUDGET} slots used`);
  await picture(page, 'budget.png', 730);
}

/** The UI shows Markdown in frames of their own. */
async function markdown(page, text) {
  await until(JSON.stringify(text), async () => {
    const counts = await Promise.all(page.frames().map((frame) => frame.getByText(text).count()));
    return counts.some((count) => count > 0);
  });
}

async function picture(page, name, height) {
  // Fonts and the last of the layout; a picture has no other sign of being complete.
  await page.waitForLoadState('networkidle', { timeout: 2_000 }).catch(() => undefined);
  await page.evaluate(() => globalThis.document.fonts.ready);
  const path = join(IMAGES, name);
  await mkdir(IMAGES, { recursive: true });
  await writeFile(path, await page.screenshot({ animations: 'disabled', clip: { x: 0, y: 0, width: WIDTH, height } }));
  const { size } = await stat(path);
  if (size > MAX_IMAGE_BYTES) throw new Error(`${name} has ${size} bytes, more than ${MAX_IMAGE_BYTES}`);
  process.stderr.write(`${path} ${size} bytes\n`);
}

async function until(what, isSo) {
  const giveUpAtMs = Date.now() + 60_000;
  while (!(await isSo())) {
    if (Date.now() > giveUpAtMs) throw new Error(`waited 60 s for ${what}`);
    await sleep(200);
  }
}

await main();
