import { expect, test } from 'vitest';
import { prettyLine } from '../../src/worker/logging.js';

const line = (fields: object) =>
  prettyLine(JSON.stringify({ level: 'warn', time: '2026-11-28T01:02:03.004Z', ...fields }));

test('a line for people has time, level, message and fields, and the stack of an error below', () => {
  expect(line({ pid: 7, msg: 'Something is up', taskQueue: 'q' })).toMatch(
    /^\d\d:\d\d:03[,.]004 WARN Something is up \{"taskQueue":"q"\}\n$/,
  );
  const err = { type: 'Error', message: 'no', stack: 'Error: no\n  at f' };
  expect(line({ msg: 'It failed', err })).toMatch(/ WARN It failed\n {4}Error: no\n {6}at f\n$/);
  const coded = line({ msg: 'It \u001b[2Jfailed', err: { ...err, code: 'ECONNRESET' } });
  expect(coded).toMatch(/ WARN It failed \{"code":"ECONNRESET"\}\n {4}Error: no\n/);
  expect(line({ msg: 'It failed', err: 'no' })).toMatch(/ WARN It failed \{"err":"no"\}\n$/);
  expect(line({ msg: 'It failed', err: { code: 5 } })).toMatch(/ WARN It failed \{"err":\{"code":5\}\}\n$/);
});
