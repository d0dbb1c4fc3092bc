/** Runs one benchmark: `npm run bench -- NAME [options]`. docs/explanation/benchmarks.md says what each shows. */
const USAGE = `npm run bench -- NAME [options]
  budget     how much of a budget is used under load, and whether it holds
  size       memory and CPU of follow-ups in flight
  start      how long the command line takes to start
  compare    follow-ups beside a naive and a bare workflow
Each has --help.`;

const [name = ''] = process.argv.splice(2, 1);
if (['budget', 'size', 'start', 'compare'].includes(name)) await import(`./${name}.js`);
else {
  process.stderr.write(`${USAGE}\n`);
  process.exitCode = name === '--help' ? 0 : 2;
}
