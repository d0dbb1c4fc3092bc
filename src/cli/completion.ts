import type { Command } from 'commander';

/** Words that can follow a command. */
interface Cursor {
  /** Names such as `batch run`; empty for the program. */
  path: string;
  words: { word: string; description: string }[];
  options: { flag: string; description: string; choices: readonly string[] }[];
}

/**
 * Creates a shell script that completes commands, options and their values, and otherwise file names. It contains all
 * of them, so that Tab starts no process.
 */
export function completionScript(program: Command, shell: string): string {
  const cursors = cursorsOf(program);
  return shell === 'fish' ? fishScript(cursors) : bashScript(cursors, shell === 'zsh');
}

function cursorsOf(command: Command, path: readonly string[] = []): Cursor[] {
  const help = command.createHelp();
  const cursor: Cursor = {
    path: path.join(' '),
    words: [
      ...help.visibleCommands(command).map((each) => ({ word: each.name(), description: each.description() })),
      ...command.registeredArguments.flatMap(({ argChoices = [] }) =>
        argChoices.map((word) => ({ word, description: '' })),
      ),
    ],
    options: help
      .visibleOptions(command)
      .map(({ long, description, argChoices }) => ({ flag: long ?? '', description, choices: argChoices ?? [] })),
  };
  return [cursor, ...command.commands.flatMap((each) => cursorsOf(each, [...path, each.name()]))];
}

/** Commands with subcommands. */
function groupsOf(cursors: readonly Cursor[]): string[] {
  return [...new Set(cursors.flatMap(({ path }) => (path.includes(' ') ? (path.split(' ')[0] ?? '') : [])))];
}

/** Also for zsh, which supports bash completions. */
function bashScript(cursors: readonly Cursor[], isZsh: boolean): string {
  // A group comes after its commands, whose names begin with its own.
  const cases = cursors
    .toReversed()
    .flatMap(({ path, words, options }) => [
      ...options.flatMap(({ flag, choices }) =>
        choices.length > 0 ? `    "${path} ${flag}") words="${choices.join(' ')}" ;;` : [],
      ),
      `    "${path} "*)`,
      `      words="${words.map(({ word }) => word).join(' ')}"`,
      `      [[ $current == -* ]] && words="${options.map(({ flag }) => flag).join(' ')}" ;;`,
    ]);
  return `# completion of follow-up
${isZsh ? 'autoload -U +X bashcompinit && bashcompinit\n' : ''}_follow_up() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path="" words=""
  ((COMP_CWORD > 1)) && path="\${COMP_WORDS[1]}"
  case "$path" in ${groupsOf(cursors).join('|')}) ((COMP_CWORD > 2)) && path="$path \${COMP_WORDS[2]}" ;; esac
  case "$path $previous" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _follow_up follow-up
`;
}

function fishScript(cursors: readonly Cursor[]): string {
  const groups = groupsOf(cursors);
  const quote = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`;
  const lines = cursors.flatMap(({ path, words, options }) => {
    const isSeen = (names: string) => `__fish_seen_subcommand_from ${names}`;
    // A command of a group may share its name with another command.
    const isOfNone = path.includes(' ') || groups.includes(path) ? [] : [`not ${isSeen(groups.join(' '))}`];
    const conditions = [...path.split(' ').map(isSeen), ...isOfNone];
    const when = `complete -c follow-up -n ${quote(path === '' ? '__fish_use_subcommand' : conditions.join('; and '))}`;
    return [
      ...words.map(({ word, description }) => `${when} -a ${word} -d ${quote(description)}`),
      ...options.map(({ flag, description, choices }) => {
        const values = choices.length > 0 ? ` -x -a ${quote(choices.join(' '))}` : '';
        return `${when} -l ${flag.slice(2)}${values} -d ${quote(description)}`;
      }),
    ];
  });
  return `${lines.join('\n')}\n`;
}
