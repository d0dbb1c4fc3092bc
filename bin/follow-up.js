#!/usr/bin/env node
/** The command `follow-up`. In a checkout it builds `dist` first when that is missing or older than `src`. */
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { isStale } from './build.js';

process.setSourceMapsEnabled(true);

/** Builds in a process of its own: the compiler and the bundler would stay in this one's memory. */
function ensureBuilt() {
  if (!isStale()) return true;
  const script = fileURLToPath(new URL('./build.js', import.meta.url));
  // Everything goes to stderr: stdout is for the command's data.
  return spawnSync(process.execPath, [script, '--if-stale'], { stdio: ['ignore', 2, 2] }).status === 0;
}

if (ensureBuilt()) {
  const { main } = await import('../dist/cli/main.js');
  process.exitCode = await main(process.argv.slice(2));
} else {
  process.exitCode = 1;
}
