import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import ts from 'typescript';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { stringify } from 'yaml';
import { FollowUpClient } from '../../src/client/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator } from '../../src/simulator/index.js';
import { startWorker } from '../../src/worker.js';
import { resolveGoTool } from '../support/go-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { testConfig } from '../worker/support.js';
import { alerts, dashboardJson, dashboardQueries, repositoryPath } from './support.js';

describeWith(await findMissing(['promtool']))('promtool', () => {
  let promtool: string;
  beforeAll(async () => {
    promtool = await resolveGoTool('promtool', process.env);
  });

  function run(...args: string[]) {
    const { status, stdout, stderr } = spawnSync(promtool, args, { encoding: 'utf8' });
    return { status, output: `${stdout}${stderr}` };
  }

  async function copyOfPrometheus(): Promise<string> {
    const directory = await mkdtemp(join(tmpdir(), 'prometheus-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    await cp(repositoryPath('deploy/prometheus'), directory, { recursive: true });
    return directory;
  }

  test('accepts the alerts and the configuration that loads them', () => {
    const rules = run('check', 'rules', repositoryPath('deploy/prometheus/alerts.yaml'));
    expect(rules).toMatchObject({ status: 0 });
    expect(rules.output).toContain(`${alerts.length} rules found`);
    expect(run('check', 'config', repositoryPath('deploy/prometheus/prometheus.yaml'))).toMatchObject({ status: 0 });
  });

  test('accepts the names and units of the metrics that a real worker serves', async () => {
    const simulator = await startSimulator({ turn: { minMs: 100, maxMs: 100 } });
    onTestFinished(() => simulator.close());
    const config = testConfig({ AGENT_JOBS_BASE_URL: simulator.baseUrl, AGENT_JOBS_API_KEY: simulator.apiKey });
    const service = await startWorker({ config, logger: createLogger({ level: 'error', format: 'json' }) });
    onTestFinished(() => service.shutdown());
    await service.ready;
    const connection = await Connection.connect({ address: config.temporal.address });
    onTestFinished(() => connection.close());
    simulator.addJob({ projectId: 'p', jobId: 'j' });
    const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: config.taskQueue });
    await followUps.run({
      projectId: 'p',
      jobId: 'j',
      prompt: 'x',
      poll: { initialInterval: '100ms' },
      settleTime: '1s',
    });
    // The SDK names the labels of metrics of workflows itself, in camel case.
    const served = (await (await fetch(`${service.statusUrl}/metrics`)).text())
      .replaceAll('taskQueue=', 'task_queue=')
      .replaceAll('workflowType=', 'workflow_type=');
    expect(served).toContain('follow_up_start_to_end_seconds_bucket');
    const check = (input: string) => spawnSync(promtool, ['check', 'metrics'], { input, encoding: 'utf8' });
    expect(check(served)).toMatchObject({ status: 0, stdout: '', stderr: '' });
    expect(check(served.replaceAll('_seconds', '_milliseconds')).stderr).toContain(
      'follow_up_send_duration_milliseconds',
    );
  });

  test('passes the cases of every alert', () => {
    const cases = run('test', 'rules', repositoryPath('deploy/prometheus/alerts.test.yaml'));
    expect(cases).toMatchObject({ status: 0 });
    expect(cases.output).toContain('SUCCESS');
  });

  test.each([
    ['waits longer', { for: '30d' }],
    ['never fires', { expr: 'vector(0) > 1' }],
  ])('fails a case of each alert that %s', async (_, change) => {
    const directory = await copyOfPrometheus();
    const rules = alerts.map((rule) => ({ ...rule, ...change }));
    await writeFile(join(directory, 'alerts.yaml'), stringify({ groups: [{ name: 'changed', rules }] }));
    const { status, output } = run('test', 'rules', join(directory, 'alerts.test.yaml'));
    expect(status).toBe(1);
    expect(alerts.map(({ alert }) => alert).filter((alert) => !output.includes(`alertname: ${alert},`))).toEqual([]);
  });

  test('parses every query of the dashboard', async () => {
    const directory = await copyOfPrometheus();
    const file = join(directory, 'queries.yaml');
    const check = async (expressions: string[]) => {
      const rules = expressions.map((expr, index) => ({ record: `query_${index}`, expr }));
      await writeFile(file, stringify({ groups: [{ name: 'queries', rules }] }));
      return run('check', 'rules', file);
    };
    const expressions = dashboardQueries();
    expect(expressions.length).toBeGreaterThan(10);
    expect(await check(expressions)).toMatchObject({ status: 0 });
    expect((await check([...expressions, 'sum by (project (up)'])).status).not.toBe(0);
  });
});

describe("Grafana's own schema", () => {
  /** The compiler's errors for a dashboard as a value of Grafana's published type. */
  function problemsOf(json: string): string[] {
    const path = repositoryPath('dashboard-check.ts');
    const source = `
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
`;
    const options: ts.CompilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      types: [],
    };
    const host = ts.createCompilerHost(options);
    const { readFile: read, fileExists } = host;
    host.readFile = (name) => (name === path ? source : read(name));
    host.fileExists = (name) => name === path || fileExists(name);
    const program = ts.createProgram([path], options, host);
    const file = program.getSourceFile(path);
    return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(({ messageText }) =>
      ts.flattenDiagnosticMessageText(messageText, '\n'),
    );
  }

  test('accepts the dashboard, and refuses unknown words', () => {
    const json = dashboardJson;
    expect(problemsOf(json)).toEqual([]);
    for (const [good, bad] of [
      ['"graphTooltip": 1', '"graphTooltips": 1'],
      ['"drawStyle": "line"', '"drawStyle": "lines"'],
      ['"colorMode": "value"', '"colorMode": "values"'],
      ['"mode": "multi"', '"mode": "many"'],
      ['"type": "stat"', '"type": "stats"'],
    ] as const) {
      expect(json).toContain(good);
      expect(problemsOf(json.replace(good, bad)), bad).not.toEqual([]);
    }
  });
});
