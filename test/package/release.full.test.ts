import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { resolveGoTool } from '../support/go-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { repository, run } from './packing.js';

const workflows = join(repository, '.github', 'workflows');
const EXAMPLE = 'examples/red-checks/follow-up.yml';

describeWith(await findMissing(['actionlint']))('actionlint', () => {
  const paths = [...readdirSync(workflows).map((name) => join('.github/workflows', name)), EXAMPLE];
  test.each(paths)('finds nothing wrong in %s', async (path) => {
    const { stdout } = await run(await resolveGoTool('actionlint'), ['-no-color', join(repository, path)]);
    expect(stdout).toBe('');
  });
});

test('a release runs all tests first, then publishes both packages with provenance', () => {
  const steps = z.array(z.object({ run: z.string().optional() }));
  const { jobs } = z
    .object({
      jobs: z.object({
        test: z.object({ steps }),
        long: z.object({ uses: z.literal('./.github/workflows/long.yml') }),
        publish: z.object({ needs: z.tuple([z.literal('test'), z.literal('long')]), steps }),
      }),
    })
    .parse(parse(readFileSync(join(workflows, 'release.yml'), 'utf8')));
  expect(jobs.test.steps.map((step) => step.run)).toContain('.ci/run');
  expect(jobs.publish.steps.map((step) => step.run).filter((line) => line?.startsWith('npm publish'))).toEqual([
    'npm publish --provenance --access public',
    'npm publish ./packages/client --provenance --access public',
  ]);
});

test.each(['cyclonedx', 'spdx'])(
  'the bill of materials in %s lists what users install, and nothing else',
  async (format) => {
    const options = { cwd: repository, maxBuffer: 16 * 1_048_576 };
    const { stdout } = await run(process.execPath, ['tools/scripts/sbom.js', format], options);
    const listed = [...stdout.matchAll(/"pkg:npm\/([^"]+)"/g)].map(([, name = '']) => decodeURIComponent(name));
    const { packages } = z
      .object({ packages: z.record(z.string(), z.object({ version: z.string(), dev: z.boolean().optional() })) })
      .parse(JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')));
    const needed = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true);
    const names = needed.map(([path, { version }]) => `${path.replace(/.*node_modules\//, '')}@${version}`);
    const foreign = listed.filter((name) => !name.startsWith('agent-follow-up@'));
    expect(new Set(foreign)).toEqual(new Set(names));
  },
);
