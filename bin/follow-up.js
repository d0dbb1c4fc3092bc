#!/usr/bin/env node
/** The command `follow-up`. In a checkout, which alone has sources, it first builds what they have changed. */
import { existsSync } from 'node:fs';
import process from 'node:process';

/** @returns {Promise<{ bundled?: Promise<void> } | undefined>} `undefined` if the build failed */
async function prepare() {
  if (!existsSync(new URL('../src', import.meta.url))) return {};
  // The maps lead to the sources.
  process.setSourceMapsEnabled(true);
  const { buildIfStale } = await import('./checkout.js');
  return buildIfStale();
}

const prepared = await prepare();
if (prepared) {
  const { main } = await import('../dist/cli/main.js');
  process.exitCode = await main(process.argv.slice(2), undefined, prepared.bundled);
} else {
  process.exitCode = 1;
}
