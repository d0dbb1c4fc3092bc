import { execFile } from 'node:child_process';
import { mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { fetchOnce } from '../../src/dev-server/fetch-once.js';
import { childEnvironment } from '../../src/dev-server/process.js';
import { cacheDirectory } from '../../src/dev-server/resolve.js';
import { findOnPath, isExecutable, say } from './programs.js';

/** A Go module, with its checksum in Go's checksum database. */
export interface GoModule {
  path: string;
  version: string;
  sum: string;
}

const BUILD_TIMEOUT_MS = 1_800_000;

/** A module by its line in a go.sum file. */
export function goModule(line: string): GoModule {
  const [path = '', version = '', sum = ''] = line.split(' ');
  return { path, version, sum };
}

/**
 * The programs that check what is in `deploy`, `examples` and `.github`: the path of a package in its module, or of a file that
 * is built against the module. Prometheus has the version in docker-compose.yml.
 */
const goTools = {
  actionlint: {
    module: goModule('github.com/rhysd/actionlint v1.7.12 h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY='),
    command: './cmd/actionlint',
  },
  promtool: {
    module: goModule('github.com/prometheus/prometheus v0.305.0 h1:UO/LsM32/E9yBDtvQj8tN+WwhbyWKR10lO35vmFLx0U='),
    command: './cmd/promtool',
  },
  kubeconform: {
    module: goModule('github.com/yannh/kubeconform v0.7.0 h1:ZFfniR8VChrWQxaxTUGnNrxw8RIDkjVBrjdhXSamwjw='),
    command: './cmd/kubeconform',
  },
  kustomize: {
    module: goModule('sigs.k8s.io/kustomize/kustomize/v5 v5.7.1 h1:sYJsarwy/SDJfjjLMUqwFDGPwzUtMOQ1i1Ed49+XSbw='),
    command: '.',
  },
  // Compose's own library. Its command does not insert the environment.
  'compose-loader': {
    module: goModule('github.com/compose-spec/compose-go/v2 v2.16.2 h1:pTp1DqQwJzFd85GzlWsSszKA1ABrV/ySqsClujIcWA8='),
    command: fileURLToPath(new URL('../deploy/compose-loader.go', import.meta.url)),
  },
};

/** Finds a program on PATH or in the cache, or builds it with Go, which takes some minutes once. */
export async function resolveGoTool(name: keyof typeof goTools): Promise<string> {
  const found = await findOnPath(name, process.env);
  if (found !== undefined) return found;
  const { module, command } = goTools[name];
  const cache = cacheDirectory(process.env);
  const executable = join(cache, `${name}-${module.version}`, name);
  return fetchOnce({
    cacheDirectory: cache,
    name: `${name}-${module.version}`,
    lookUp: async () => ((await isExecutable(executable)) ? executable : undefined),
    onProgress: say,
    fetch: async (temporaryDirectory) => {
      say(`${name}: building ${module.version} with Go, once; this takes some minutes`);
      const built = join(temporaryDirectory, name);
      // The build runs in the module itself, because `go install` refuses a module that replaces others.
      await runGo(['build', '-o', built, command], await downloadGoModule(module));
      await mkdir(dirname(executable), { recursive: true });
      await rename(built, executable);
      return executable;
    },
  });
}

/**
 * Downloads a module. Returns its directory in Go's cache, which is read-only.
 *
 * @throws Error if Go is missing, or if the module's checksum differs from the pinned one
 */
export async function downloadGoModule({ path, version, sum }: GoModule): Promise<string> {
  const printed = await runGo(['mod', 'download', '-json', `${path}@${version}`], cacheDirectory(process.env));
  const { Dir, Sum } = z.object({ Dir: z.string(), Sum: z.string() }).parse(JSON.parse(printed));
  if (Sum !== sum) throw new Error(`${path}@${version} has checksum ${Sum}, but ${sum} is pinned`);
  return Dir;
}

/** Runs `go` to its end, and returns what it prints. */
export async function runGo(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = { env: { ...childEnvironment(process.env), ...env }, cwd, timeout: BUILD_TIMEOUT_MS };
  return (await promisify(execFile)('go', args, options)).stdout;
}
