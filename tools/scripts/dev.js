/**
 * `npm run dev` runs this with `node --watch-path=src`: `follow-up dev`, which is stopped, built and started again when
 * a source changes. Arguments go to `follow-up dev`.
 */
import process from 'node:process';

// Node's watcher: with it, the build would report each module that it loads to the command.
delete process.env['WATCH_REPORT_DEPENDENCIES'];
process.argv.splice(2, 0, 'dev');
await import('../../bin/follow-up.js');
