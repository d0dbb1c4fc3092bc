// Takes the pictures of Temporal's UI in docs/images: npm run screenshots -- [path of Chromium]
// Starts a Temporal dev server with its UI, the simulated service and a worker, sends a few follow-ups, and shows the
// UI in a headless Chromium. Everything is on this machine: a request to anywhere else fails the run.
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { chromium } from 'playwright-core';
import sharp from 'sharp';
import { FollowUpClient } from '../../dist/client/index.js';
import { loadConfig } from '../../dist/config/index.js';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { startDevServer } from '../../dist/dev-server/index.js';
import { startSimulator } from '../../dist/simulator/index.js';
import { startWorker } from '../../dist/worker.js';
import { createLogger } from '../../dist/worker/logging.js';

const IMAGES = fileURLToPath(new URL('../../docs/images', import.meta.url));
const MAX_IMAGE_BYTES = 100 * 1024;
const WIDTH = 1440;
/** Pictures of a workflow leave out the menus beside and above its page. */
const FROM = { x: 256, y: 104 };

const CHROMIUM_PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

/** The project of the list. Its budget has this many slots, and its other follow-ups wait. */
const SHOP = 'web-shop';
const SLOTS = 6;
/** A project whose deliveries fail, and one whose budget is paused. */
const SITE = 'docs-site';
const PAUSED = 'billing';

/** Jobs whose agents never end, or do not succeed. */
const jobs = [
  { projectId: SHOP, jobId: 'migrate-database', behaviour: { outcome: 'failed' } },
  { projectId: SHOP, jobId: 'old-theme', behaviour: { outcome: 'archived' } },
  { projectId: SHOP, jobId: 'dark-mode', behaviour: { neverEnds: true } },
  { projectId: SHOP, jobId: 'search-box', behaviour: { neverEnds: true } },
  { projectId: SITE, jobId: 'i18n', behaviour: { neverEnds: true } },
];

const quick = { poll: { initialInterval: '1s', maxInterval: '2s' }, settleTime: '5s' };
/** In the order of their sends, so that each has the place in the queue that the pictures show. */
const shop = [
  { jobId: 'add-tests', key: 'parser-tests', prompt: 'Add tests for the parser.', ...quick },
  { jobId: 'old-theme', key: 'new-logo', prompt: 'The login page shows the old logo: replace it.', ...quick },
  { jobId: 'migrate-database', key: 'add-index', prompt: 'Add an index on orders.created_at.', ...quick },
  {
    jobId: 'dark-mode',
    key: 'contrast',
    prompt: 'The contrast of the buttons is too low.',
    poll: { initialInterval: '1s', maxInterval: '45s', backoffCoefficient: 7 },
  },
  { jobId: 'search-box', key: 'typo', prompt: 'Find words with one typo, too.' },
  { jobId: 'rename-field', key: 'total', prompt: 'Rename the field sum to total.', ...quick },
  { jobId: 'update-docs', key: 'new-setting', prompt: 'Describe the new setting in the README.' },
  { jobId: 'add-docstrings', key: 'public-api', prompt: 'Give every public function a docstring.', lane: 'batch' },
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
    const pages = await playScenes(stack);
    await takePictures(browser, stack, pages);
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

async function startStack(closers) {
  const env = processEnvironment();
  const server = await startDevServer({
    env,
    ui: true,
    onProgress: (message) => void process.stderr.write(`${message}\n`),
  });
  closers.push(() => server.stop());
  const simulator = await startSimulator({
    turn: { minMs: 1_500, maxMs: 3_000 },
    autoCreate: true,
  });
  closers.push(() => simulator.close());
  for (const job of jobs) simulator.addJob(job);
  const config = loadConfig({
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    // A delivery in doubt is decided within a minute.
    FOLLOW_UP_SEND_TIMEOUT: '2s',
    FOLLOW_UP_DRAIN: '2s',
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    FOLLOW_UP_LOG_LEVEL: 'error',
  });
  const worker = await startWorker({ config, logger: createLogger(config.logging) });
  closers.push(() => worker.shutdown());
  await worker.ready;
  const connection = await Connection.connect({ address: server.address });
  closers.push(() => connection.close());
  const client = new Client({ connection });
  return { uiUrl: server.uiUrl, simulator, followUps: new FollowUpClient({ client }) };
}

/** Brings every follow-up, budget and batch into the state that its picture shows. Returns the pages and their pictures. */
async function playScenes({ followUps, simulator }) {
  await followUps.budget(SHOP).setLimit({ limit: SLOTS });
  simulator.failNext({
    ...{ method: 'POST', projectId: SHOP, jobId: 'rename-field' },
    how: { status: 422, error: 'the branch was deleted' },
  });
  const sent = {};
  for (const input of shop) sent[input.jobId] = await startNext(followUps, { projectId: SHOP, ...input });

  simulator.failNext({ method: 'POST', projectId: SITE, jobId: 'lost-page', how: 'reset' });
  const lost = await followUps.start({
    ...{ projectId: SITE, jobId: 'lost-page', key: 'restore', prompt: 'Restore it.', ...quick },
  });
  await followUps.budget(PAUSED).pause({ for: '2h', note: 'release freeze' });
  const frozen = await followUps.start({
    ...{ projectId: PAUSED, jobId: 'invoices', key: 'totals', prompt: 'Check the totals.' },
  });
  await followUps.schedules.create({
    ...{ name: 'weekly-upgrade', cron: '0 6 * * MON', timeZone: 'Europe/Berlin', note: 'dependencies' },
    input: { projectId: SITE, prompt: 'Upgrade the dependencies.', jobIds: ['app', 'api'] },
  });
  await followUps.schedules.pause('weekly-upgrade', 'holidays');
  await sent['update-docs'].cancel();

  const states = [
    [sent['add-tests'], 'completed'],
    [sent['old-theme'], 'archived'],
    [sent['migrate-database'], 'job-failed'],
    [sent['rename-field'], 'not-sent'],
    [sent['update-docs'], 'cancelled'],
    [sent['dark-mode'], 'polling'],
    [sent['add-docstrings'], 'waiting-for-budget'],
    [lost, 'delivery-unknown'],
    [frozen, 'blocked'],
  ];
  for (const [followUp, wanted] of states) {
    await until(`${followUp.workflowId} to be ${wanted}`, async () => (await followUp.describe()).state === wanted);
  }
  const jobIds = ['a11y', 'fail-build', 'missing-1', 'css', 'i18n', 'js', ...[1, 2, 3, 4, 5].map((n) => `slow-${n}`)];
  const batch = await followUps.startBatch({
    id: 'nightly',
    maxOpen: 4,
    items: jobIds.map((jobId) => ({ projectId: SITE, jobId, prompt: 'Upgrade the linter.', ...quick })),
  });
  await until('some items of the batch to have ended', async () => {
    const { completed, failed, errors } = await batch.status();
    return completed >= 1 && failed === 1 && errors === 1;
  });
  return [
    // First, while it still runs.
    { workflowId: batch.workflowId, name: 'batch' },
    { workflowId: `project-budget/${SHOP}`, name: 'budget' },
    { workflowId: sent['dark-mode'].workflowId, name: 'details' },
    { workflowId: sent['add-docstrings'].workflowId, name: 'waiting-for-budget' },
    { workflowId: lost.workflowId, name: 'delivery-unknown' },
  ];
}

/** Starts a follow-up and waits until it has its place in the queue. */
async function startNext(followUps, input) {
  const followUp = await followUps.start(input);
  await until(`${followUp.workflowId} to have asked for its slot`, async () => {
    const { status, state } = await followUp.describe();
    return status !== 'running' || (state !== undefined && state !== 'sending');
  });
  return followUp;
}

async function takePictures(browser, { uiUrl }, pages) {
  const context = await browser.newContext({ viewport: { width: WIDTH, height: 1_000 }, colorScheme: 'light' });
  await context.route(
    (url) => url.origin !== uiUrl && url.protocol !== 'data:' && url.protocol !== 'blob:',
    async (route) => {
      const url = route.request().url();
      // The UI asks for its news feed, and does without.
      if (!url.startsWith('https://newsfeed.temporal.io/')) {
        process.exitCode = 1;
        process.stderr.write(`refused a request to ${url}\n`);
      }
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

  await page.goto(workflow(`follow-up/${SHOP}/dark-mode/contrast`));
  await page.getByText('sendMessage').first().waitFor();
  await picture(page, 'timeline.png', { x: 0, y: 0, width: WIDTH, height: 840 });

  const query = '`WorkflowType`="followUp" AND `FollowUpBatchId` is null';
  await page.goto(`${uiUrl}/namespaces/default/workflows?query=${encodeURIComponent(query)}`);
  await page.getByText('waiting-for-budget').first().waitFor();
  await page
    .getByRole('button', { name: /saved views/i })
    .first()
    .click()
    .catch(() => undefined);
  await picture(page, 'list.png', { x: 0, y: 0, width: WIDTH, height: 680 });

  await page.setViewportSize({ width: 1280, height: 1_200 });
  for (const { workflowId, name } of pages) {
    await page.goto(workflow(workflowId));
    await page.getByText('User Metadata').first().click();
    const { y, height } = await markdown(page, 'As of 2');
    await picture(page, `${name}.png`, { ...FROM, width: 1_024, height: Math.ceil(y + height) - FROM.y });
  }

  await page.goto(`${uiUrl}/namespaces/default/schedules/weekly-upgrade`);
  await page.getByText('holidays').first().waitFor();
  const { y } = await page.getByText('holidays').first().boundingBox();
  await picture(page, 'schedule.png', { ...FROM, width: 1_024, height: Math.ceil(y) + 60 - FROM.y });
}

/** The UI shows each Markdown text in a frame as high as the text. Returns the position of the frame with `text`. */
async function markdown(page, text) {
  let box;
  await until(JSON.stringify(text), async () => {
    for (const frame of page.frames()) {
      // A frame may be replaced while this reads it.
      const count = await frame
        .getByText(text)
        .count()
        .catch(() => 0);
      if (count === 0 || frame === page.mainFrame()) continue;
      const element = await frame.frameElement();
      box = await element.boundingBox();
    }
    return Boolean(box);
  });
  return box;
}

async function picture(page, name, clip) {
  // Wait for the fonts and the layout. Nothing else shows that the page is complete.
  await page.waitForLoadState('networkidle', { timeout: 2_000 }).catch(() => undefined);
  await page.evaluate(() => globalThis.document.fonts.ready);
  const path = join(IMAGES, name);
  await mkdir(IMAGES, { recursive: true });
  const screenshot = await page.screenshot({ animations: 'disabled', clip });
  // A palette loses only a few shades at the edges of letters.
  const { size } = await sharp(screenshot).png({ palette: true, dither: 0, effort: 10 }).toFile(path);
  if (size > MAX_IMAGE_BYTES) throw new Error(`${name} has ${size} bytes, more than ${MAX_IMAGE_BYTES}`);
  process.stderr.write(`${path} ${size} bytes\n`);
}

async function until(what, isSo) {
  const giveUpAtMs = Date.now() + 180_000;
  while (!(await isSo())) {
    if (Date.now() > giveUpAtMs) throw new Error(`waited 3 min for ${what}`);
    await sleep(200);
  }
}

await main();
