import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { fetchOnce } from '../../src/dev-server/fetch-once.js';
import { cacheDirectory } from '../../src/dev-server/resolve.js';
import { downloadGoModule, type GoModule, goModule, resolveGoTool } from './go-tools.js';
import { findOnPath, say } from './programs.js';

const KUBERNETES = goModule('k8s.io/kubernetes v1.36.3 h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=');
const KEDA = goModule('github.com/kedacore/keda/v2 v2.21.0 h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=');
const PROMETHEUS_OPERATOR = goModule(
  'github.com/prometheus-operator/prometheus-operator v0.85.0 h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=',
);

/** Kinds of Kubernetes itself that the manifests use. */
const KINDS = ['ConfigMap', 'Deployment', 'PodDisruptionBudget', 'ServiceAccount'];

/** The definitions of custom resources: their modules and their paths in these. */
const CUSTOM_RESOURCES: [GoModule, string][] = [
  [KEDA, 'config/crd/bases/keda.sh_scaledobjects.yaml'],
  [KEDA, 'config/crd/bases/keda.sh_triggerauthentications.yaml'],
  [PROMETHEUS_OPERATOR, 'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml'],
  [PROMETHEUS_OPERATOR, 'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml'],
];

/** The programs that check the manifests. */
export interface KubernetesTools {
  /** The command that prints manifests. Their directory is its last argument. */
  kustomize: readonly [command: string, ...args: string[]];
  kubeconform: string;
  /** For `kubeconform -schema-location`. */
  schemaLocation: string;
}

/** Finds the programs, and makes the schemas from the modules of Kubernetes, KEDA and the Prometheus Operator, once. */
export async function resolveKubernetesTools(): Promise<KubernetesTools> {
  const kubectl = await findOnPath('kubectl', process.env);
  return {
    kustomize: kubectl === undefined ? [await resolveGoTool('kustomize'), 'build'] : [kubectl, 'kustomize'],
    kubeconform: await resolveGoTool('kubeconform'),
    schemaLocation: join(await resolveSchemas(), '{{.ResourceKind}}{{.KindSuffix}}.json'),
  };
}

function resolveSchemas(): Promise<string> {
  const cache = cacheDirectory(process.env);
  const name = `kubernetes-schemas-${KUBERNETES.version}-${KEDA.version}-${PROMETHEUS_OPERATOR.version}`;
  const directory = join(cache, name);
  return fetchOnce({
    cacheDirectory: cache,
    name,
    lookUp: async () => (existsSync(directory) ? directory : undefined),
    onProgress: say,
    fetch: async (temporaryDirectory) => {
      say(`Kubernetes: making schemas of ${KUBERNETES.version} from Go modules, once`);
      const made = join(temporaryDirectory, 'schemas');
      await mkdir(made);
      for (const { file, content } of [...(await kubernetesSchemas()), ...(await customSchemas())]) {
        await writeFile(join(made, `${file}.json`), JSON.stringify(strict(content)));
      }
      await rename(made, directory);
      return directory;
    },
  });
}

interface NamedSchema {
  /** The name for kubeconform: kind, group and version in lower case. */
  file: string;
  content: object;
}

interface Definition {
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[];
}

async function kubernetesSchemas(): Promise<NamedSchema[]> {
  const directory = await downloadGoModule(KUBERNETES);
  const text = await readFile(join(directory, 'api/openapi-spec/swagger.json'), 'utf8');
  const { definitions } = JSON.parse(text) as { definitions: Record<string, Definition> };
  return Object.entries(definitions).flatMap(([id, definition]) =>
    (definition['x-kubernetes-group-version-kind'] ?? [])
      .filter(({ kind }) => KINDS.includes(kind))
      .map(({ group, version, kind }) => ({
        file: [kind, ...(group === '' ? [] : [group.split('.')[0]]), version].join('-').toLowerCase(),
        content: { $ref: `#/definitions/${id}`, definitions: reachableFrom(id, definitions) },
      })),
  );
}

function reachableFrom(id: string, definitions: Record<string, Definition>): Record<string, Definition> {
  const found: Record<string, Definition> = {};
  const open = [id];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const definition = definitions[next];
    if (definition === undefined || next in found) continue;
    // The specification says string, but an integer is allowed too.
    const isIntOrString = next.endsWith('.IntOrString');
    found[next] = isIntOrString ? ({ type: ['string', 'integer'] } as Definition) : definition;
    for (const [, inner = ''] of JSON.stringify(definition).matchAll(/"#\/definitions\/([^"]+)"/g)) open.push(inner);
  }
  return found;
}

async function customSchemas(): Promise<NamedSchema[]> {
  const schemas: NamedSchema[] = [];
  for (const [module, path] of CUSTOM_RESOURCES) {
    const text = await readFile(join(await downloadGoModule(module), path), 'utf8');
    type Versions = { name: string; schema: { openAPIV3Schema: object } }[];
    const { spec } = parse(text) as { spec: { group: string; names: { kind: string }; versions: Versions } };
    for (const { name, schema } of spec.versions) {
      const file = [spec.names.kind, spec.group.split('.')[0], name].join('-').toLowerCase();
      schemas.push({ file, content: schema.openAPIV3Schema });
    }
  }
  return schemas;
}

/** The schema, changed to refuse unknown fields, which an API server drops silently. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, strict(value)]));
  const isOpen = 'additionalProperties' in copy || copy['x-kubernetes-preserve-unknown-fields'] === true;
  // A field may be called `properties`. A schema also has a type.
  return typeof copy['properties'] === 'object' && copy['type'] === 'object' && !isOpen
    ? { ...copy, additionalProperties: false }
    : copy;
}
