import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';

/** The path of a file of the repository. */
export const repositoryPath = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The text of a file of the repository. */
export const repositoryText = (path: string): string => readFileSync(repositoryPath(path), 'utf8');

const { name, version } = JSON.parse(repositoryText('package.json')) as { name: string; version: string };

/** The image of this version. */
export const imageName = `${name}:${version}`;

/** One service of docker-compose.yml: the fields that tests use. Compose's own loader checks the file. */
export interface ComposeService {
  image: string;
  build?: { context: string; dockerfile: string };
  user?: string;
  command?: string[];
  profiles?: string[];
  depends_on?: Record<string, { condition: string }>;
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  healthcheck?: { test: string[] };
  stop_grace_period?: string;
  read_only?: boolean;
  restart: string;
  security_opt: string[];
  mem_limit?: string;
  logging?: { driver: string; options: Record<string, string> };
}

/** The services of docker-compose.yml. */
export const composeServices = (
  parse(repositoryText('docker-compose.yml')) as { services: Record<string, ComposeService> }
).services;

/** Pairs of a settings file such as deploy/simulator.env. */
export const simulatorEnvironment = Object.fromEntries(
  [...repositoryText('deploy/simulator.env').matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ]),
);

/** One `FROM` of a Dockerfile, with its instructions. */
export interface DockerStage {
  image: string;
  name?: string;
  instructions: { name: string; text: string }[];
}

/** The stages of deploy/Dockerfile. Continued lines are joined. */
export const dockerStages: DockerStage[] = repositoryText('deploy/Dockerfile')
  .replace(/\\\n\s*/g, '')
  .split(/^(?=FROM )/m)
  .filter((part) => part.startsWith('FROM '))
  .map((part) => {
    const [from = '', ...lines] = part.split('\n').filter((line) => /^[A-Z]+\s/.test(line));
    const [, image = '', , name] = from.split(/\s+/);
    const instructions = lines.map((line) => ({
      name: line.replace(/\s.*/, ''),
      text: line.replace(/^[A-Z]+\s+/, ''),
    }));
    return { image, ...(name !== undefined && { name }), instructions };
  });

/** The text of the last instruction with a name in a stage. */
export const lastInstruction = (stage: DockerStage | undefined, name: string): string | undefined =>
  stage?.instructions.findLast((each) => each.name === name)?.text;

/** The names of all settings that a worker reads, in its configuration and in Temporal's own library. */
export const knownSettings = new Set(
  ['src/config', 'node_modules/@temporalio/envconfig/lib'].flatMap((folder) =>
    readdirSync(repositoryPath(folder))
      .filter((name) => /\.[jt]s$/.test(name) && !name.endsWith('.d.ts'))
      .flatMap(
        (name) =>
          repositoryText(`${folder}/${name}`).match(/\b(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+\b/g) ?? [],
      ),
  ),
);

const alertSchema = z.strictObject({
  ...{ alert: z.string(), expr: z.string(), for: z.string() },
  labels: z.strictObject({ severity: z.string() }),
  annotations: z.strictObject({ summary: z.string(), runbook: z.string() }),
});

/** The alerts of deploy/prometheus/alerts.yaml, in its order. */
export const alerts = z
  .object({ groups: z.array(z.object({ name: z.string(), rules: z.array(alertSchema) })) })
  .parse(parse(repositoryText('deploy/prometheus/alerts.yaml')))
  .groups.flatMap(({ rules }) => rules);

/** The dashboard of Grafana. */
export const dashboardJson = repositoryText('deploy/grafana/dashboard.json');

const queriesSchema = z.object({
  panels: z.array(z.object({ targets: z.array(z.object({ expr: z.string() })).default([]) })),
  templating: z.object({ list: z.array(z.object({ query: z.union([z.string(), z.object({ query: z.string() })]) })) }),
});

/** The PromQL of the dashboard, with Grafana's variables replaced by values. */
export function dashboardQueries(): string[] {
  const { panels, templating } = queriesSchema.parse(JSON.parse(dashboardJson));
  const ofPanels = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  // `label_values(METRIC, LABEL)` is not PromQL but Grafana's own.
  const ofVariables = templating.list.flatMap(({ query }) => {
    const text = typeof query === 'string' ? query : query.query;
    return /^label_values\((\w+), \w+\)$/.exec(text)?.slice(1) ?? [];
  });
  const queries = [...ofPanels, ...ofVariables];
  return queries.map((text) => text.replaceAll('$__rate_interval', '1m').replaceAll('$project', 'demo'));
}
