/** Runs one benchmark: `npm run bench -- NAME [options]`. Each compares with a baseline of the same run. */
const USAGE = `npm run bench -- NAME [options]
  budget     whether a budget holds under load, and how much of it is used
  isolation  what a silent budget costs follow-ups of other projects
  size       memory and CPU of follow-ups in flight, beside the least that Temporal needs
  start      how long the command line takes to start, beside node -e 0
Each has --help. docs/explanation/benchmarks.md says what each shows.`;

const [name = ''] = process.argv.splice(2, 1);
if (['budget', 'isolation', 'size', 'start'].includes(name)) await import(`./${name}.js`);
else {
  const isHelp = ['--help', '-h'].includes(name);
  (isHelp ? process.stdout : process.stderr).write(`${USAGE}\n`);
  process.exitCode = isHelp ? 0 : 2;
}
