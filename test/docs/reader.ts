import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { findOnPath } from '../support/programs.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A block of shell commands on a page. */
export interface ShellBlock {
  /** The nearest heading above. */
  heading: string;
  commands: string;
  /** The text below, up to the next such block. */
  prose: string;
}

/** The `sh` blocks of a page, and those that name no language, in order. Those in a list lose its indentation. */
export function shellBlocksOf(markdown: string): ShellBlock[] {
  const blocks: ShellBlock[] = [];
  let heading = '';
  let fence: { indent: number; isShell: boolean } | undefined;
  for (const line of markdown.split('\n')) {
    const [, indent, language] = /^( *)```(\w*)$/.exec(line) ?? [];
    const last = blocks.at(-1);
    if (indent !== undefined) {
      fence = fence ? undefined : { indent: indent.length, isShell: language === 'sh' || language === '' };
      if (fence?.isShell) blocks.push({ heading, commands: '', prose: '' });
    } else if (fence) {
      if (fence.isShell && last) last.commands += `${line.slice(fence.indent)}\n`;
    } else {
      if (last) last.prose += `${line}\n`;
      heading = /^#+ (.+)$/.exec(line)?.[1] ?? heading;
    }
  }
  return blocks;
}

/** What happened when a block was pasted. */
interface Pasted {
  /** stdout and stderr. */
  output: string;
  /** The commands that did not end with exit code 0. Those after them ran all the same, as in a terminal. */
  failed: { command: string; exitCode: number }[];
}

/** Longer than any command of a page takes, shorter than a test may. */
const PATIENCE_MS = 300_000;

/**
 * A reader with a terminal in a directory of its own, where `npx follow-up`, the installed package and `temporal` are
 * those of this checkout.
 */
export class Reader {
  /** Where the reader works. */
  readonly directory: string;
  /** Variables of the terminal before the first paste. */
  readonly env: NodeJS.ProcessEnv;
  readonly #tools: string;
  readonly #running = new Set<ChildProcess>();

  private constructor(root: string, env: Record<string, string>) {
    this.directory = join(root, 'work');
    this.#tools = root;
    const PATH = [root, process.env['PATH']].join(delimiter);
    this.env = { PATH, HOME: process.env['HOME'], NO_COLOR: '1', ...env };
  }

  /** @param env variables of the terminal, beyond those of any */
  static async open(env: Record<string, string>): Promise<Reader> {
    const root = await mkdtemp(join(tmpdir(), 'reader-'));
    const reader = new Reader(root, env);
    await mkdir(join(reader.directory, 'node_modules'), { recursive: true });
    await symlink(ROOT, join(reader.directory, 'node_modules', 'agent-follow-up'));
    const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${join(ROOT, 'bin', 'follow-up.js')}" "$@"\n`;
    await writeFile(join(root, 'npx'), npx, { mode: 0o755 });
    const path = await resolveTemporalCli({ env: process.env });
    await symlink((await findOnPath(path, process.env)) ?? path, join(root, 'temporal'));
    return reader;
  }

  /**
   * Pastes commands. What an earlier paste has exported is set, and its directory is the current one.
   *
   * @param untilOutput the last command runs until Ctrl-C, which is pressed once the output matches
   */
  async paste(commands: string, untilOutput?: RegExp): Promise<Pasted> {
    const [state, failures] = [join(this.#tools, 'state'), join(this.#tools, 'failures')];
    await writeFile(state, '', { flag: 'a' });
    await writeFile(failures, '');
    const script = [
      `. '${state}'`,
      `trap 'printf "%s %s\\0" "$?" "$BASH_COMMAND" >> "${failures}"' ERR`,
      `trap '{ export -p; printf "cd %q\\n" "$PWD"; } > "${state}"' EXIT`,
      commands,
    ].join('\n');
    // A group of its own: Ctrl-C reaches the shell and its command.
    const child = spawn('bash', ['-c', script], {
      cwd: this.directory,
      env: this.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#running.add(child);
    const timer = setTimeout(() => {
      signalGroup(child, 'SIGKILL');
    }, PATIENCE_MS);
    let output = '';
    let isPressed = false;
    const hear = (chunk: Buffer) => {
      output += chunk.toString();
      if (isPressed || !untilOutput?.test(output)) return;
      isPressed = true;
      signalGroup(child, 'SIGINT');
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', () => resolve());
    });
    clearTimeout(timer);
    this.#running.delete(child);
    if (child.signalCode !== null) throw new Error(`${commands} was killed: ${output}`);
    const failed = (await readFile(failures, 'utf8')).split('\0').slice(0, -1);
    return {
      output,
      failed: failed.map((text) => {
        const [exitCode = '', ...command] = text.split(' ');
        return { command: command.join(' '), exitCode: Number(exitCode) };
      }),
    };
  }

  /** Ends what runs, and removes the directory. */
  async close(): Promise<void> {
    for (const child of this.#running) signalGroup(child, 'SIGKILL');
    await rm(this.#tools, { recursive: true, force: true });
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(-pid, signal);
}
