import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { findOnPath } from '../support/programs.js';
import { ROOT } from './pages.js';

/** A block of shell commands on a page. */
export interface ShellBlock {
  /** The nearest heading above. */
  heading: string;
  /** The nearest heading of the second level above. */
  chapter: string;
  commands: string;
}

/** A block of code, or a heading. */
const BLOCK_OR_HEADING = /^( *)```(\w*)\n([^]*?)^ *```$|^(#+) (.+)$/gm;

/** The `sh` blocks of a page, and those that name no language, in order. Those in a list lose its indentation. */
export function shellBlocksOf(markdown: string): ShellBlock[] {
  const blocks: ShellBlock[] = [];
  let [heading, chapter] = ['', ''];
  for (const [, indent = '', language = '', code, level, title = ''] of markdown.matchAll(BLOCK_OR_HEADING)) {
    if (level) heading = title;
    if (level === '##') chapter = title;
    if (code === undefined || !['', 'sh'].includes(language)) continue;
    blocks.push({ heading, chapter, commands: `\n${code}`.replaceAll(`\n${indent}`, '\n').slice(1) });
  }
  return blocks;
}

/**
 * A reader with a terminal in a directory of its own, where `npx follow-up`, the installed package and `temporal` are
 * those of this checkout.
 */
export class Reader {
  /** Where the reader works. */
  readonly directory: string;
  /** Variables of the terminal before the first paste. */
  readonly env: Record<string, string>;
  readonly #tools: string;
  #running: ChildProcess | undefined;

  private constructor(root: string) {
    this.directory = join(root, 'work');
    this.#tools = root;
    const { PATH = '', HOME = '' } = process.env;
    this.env = { PATH: [root, PATH].join(delimiter), HOME, NO_COLOR: '1' };
  }

  static async open(): Promise<Reader> {
    const root = await mkdtemp(join(tmpdir(), 'reader-'));
    const reader = new Reader(root);
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
   * @returns stdout and stderr, and the commands that failed, each after its exit code. Those below a failed command run
   *   all the same, as in a terminal
   */
  async paste(commands: string, untilOutput?: RegExp): Promise<{ output: string; failed: string[] }> {
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
    const { directory: cwd, env } = this;
    const child = spawn('bash', ['-c', script], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#running = child;
    let output = '';
    const read = (chunk: Buffer) => {
      const before = output;
      output += chunk.toString();
      if (untilOutput?.test(output) === true && !untilOutput.test(before)) signalGroup(child, 'SIGINT');
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    await once(child, 'close');
    this.#running = undefined;
    if (child.signalCode !== null) throw new Error(`${commands} was killed: ${output}`);
    return { output, failed: (await readFile(failures, 'utf8')).split('\0').slice(0, -1) };
  }

  /** Ends what runs, and removes the directory. */
  async close(): Promise<void> {
    if (this.#running) signalGroup(this.#running, 'SIGKILL');
    await rm(this.#tools, { recursive: true, force: true });
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(-pid, signal);
}
