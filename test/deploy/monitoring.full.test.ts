import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { stringify } from 'yaml';
import { compilerErrors } from '../support/compile.js';
import { resolveGoTool } from '../support/go-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { FAST, startStack } from '../support/stack.js';
import { alerts, dashboardJson, dashboardQueries, repositoryPath } from './support.js';

describeWith(await findMissing(['promtool']))('promtool', () => {
  let promtool: string;
  beforeAll(async () => {
    promtool = await resolveGoTool('promtool');
  });

  function run(args: string[], input?: string) {
    const { status, stdout, stderr } = spawnSync(promtool, args, { input, encoding: 'utf8' });
    return { status, output: `${stdout}${stderr}` };
  }

  test('accepts the alerts, the configuration that loads them, and their cases', () => {
    const rules = run(['check', 'rules', repositoryPath('deploy/prometheus/alerts.yaml')]);
    expect(rules).toMatchObject({ status: 0 });
    expect(rules.output).toContain(`${alerts.length} rules found`);
    expect(run(['check', 'config', repositoryPath('deploy/prometheus/prometheus.yaml')])).toMatchObject({ status: 0 });
    const cases = run(['test', 'rules', repositoryPath('deploy/prometheus/alerts.test.yaml')]);
    expect(cases).toMatchObject({ status: 0, output: expect.stringContaining('SUCCESS') as string });
  });

  test('accepts the names and units of the metrics that a real worker serves', async () => {
    const stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
    onTestFinished(() => stack.stop());
    await stack.followUps.run({ projectId: 'p', jobId: 'j', prompt: 'x', ...FAST });
    // The SDK names the labels of metrics of workflows itself, in camel case.
    const served = (await (await fetch(`${stack.statusUrl}/metrics`)).text())
      .replaceAll('taskQueue=', 'task_queue=')
      .replaceAll('workflowType=', 'workflow_type=');
    expect(served).toContain('follow_up_start_to_end_seconds_bucket');
    expect(run(['check', 'metrics'], served)).toEqual({ status: 0, output: '' });
  });

  test('parses every query of the dashboard', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'prometheus-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const file = join(directory, 'queries.yaml');
    const rules = dashboardQueries().map((expr, index) => ({ record: `query_${index}`, expr }));
    expect(rules.length).toBeGreaterThan(10);
    await writeFile(file, stringify({ groups: [{ name: 'queries', rules }] }));
    expect(run(['check', 'rules', file])).toMatchObject({ status: 0 });
  });
});

test("Grafana's own schema accepts the dashboard, and refuses one with a wrong value", () => {
  /** The compiler's errors for a dashboard as a value of Grafana's published type. */
  const errorsOf = (json: string) =>
    compilerErrors(
      [
        `
import type { Dashboard, Panel, RowPanel } from '@grafana/schema';
import type { Options as StatOptions } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type {
  FieldConfig as TimeSeriesFieldConfig,
  Options as TimeSeriesOptions,
} from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

/** A type as JSON has it: the words of an enum instead of the enum. */
type Plain<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Typed<Type extends string, Options, Custom> = Plain<Omit<Panel, 'type' | 'options' | 'fieldConfig'>> & {
  type: Type;
  options: Plain<Options>;
  fieldConfig: { defaults: Plain<Omit<NonNullable<Panel['fieldConfig']>['defaults'], 'custom'>> & { custom?: Plain<Custom> }; overrides: [] };
};
type Known =
  | Plain<RowPanel>
  | Typed<'stat', StatOptions, object>
  | Typed<'timeseries', TimeSeriesOptions, Partial<TimeSeriesFieldConfig>>;
export const dashboard: Plain<Omit<Dashboard, 'panels'>> & { panels: Known[] } = ${json};
`,
      ],
      // The schema's own imports have no file endings.
      {
        moduleResolution: ts.ModuleResolutionKind.Bundler,
        module: ts.ModuleKind.ESNext,
        exactOptionalPropertyTypes: false,
        skipLibCheck: true,
      },
    );
  expect(errorsOf(dashboardJson)).toEqual([]);
  expect(errorsOf(dashboardJson.replace('"drawStyle": "line"', '"drawStyle": "lines"'))).not.toEqual([]);
});
