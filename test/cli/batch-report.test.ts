import { expect, test } from 'vitest';
import { csvRecord } from '../../src/cli/batch-report.js';

test('a record ends with CRLF, and cells with commas, quotes or line ends are quoted', () => {
  expect(csvRecord(['a', 'b,c', 'say "no"', 'two\nlines', 'two\r\nlines', '', undefined, null, 0, 12])).toBe(
    'a,"b,c","say ""no""","two\nlines","two\r\nlines",,,,0,12\r\n',
  );
});

test('a cell that a spreadsheet could take for a formula becomes text', () => {
  const cells = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '＝1', '=HYPERLINK("https://evil.example","x")'];
  expect(csvRecord(cells)).toBe(`'=1+1,'+1,'-1,'@SUM(A1),'\t=1,'＝1,"'=HYPERLINK(""https://evil.example"",""x"")"\r\n`);
  expect(csvRecord(['\r=1'])).toBe(`"'\r=1"\r\n`);
});
