import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import type { KubernetesTools } from '../support/kubernetes-tools.js';

const volumeSchema = z.object({
  name: z.string(),
  secret: z.object({ secretName: z.string(), defaultMode: z.number() }).optional(),
});

const probeSchema = z.object({
  httpGet: z.object({ path: z.string(), port: z.string() }),
  periodSeconds: z.number(),
  failureThreshold: z.number(),
});

/** The parts of the worker's Deployment that tests use. */
export const deploymentSchema = z.object({
  spec: z.object({
    replicas: z.number().optional(),
    selector: z.object({ matchLabels: z.record(z.string(), z.string()) }),
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()) }),
      spec: z.object({
        terminationGracePeriodSeconds: z.number(),
        securityContext: z.unknown(),
        volumes: z.array(volumeSchema),
        containers: z.tuple([
          z.object({
            image: z.string(),
            args: z.array(z.string()),
            envFrom: z.array(z.object({ configMapRef: z.object({ name: z.string() }) })),
            ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
            startupProbe: probeSchema,
            livenessProbe: probeSchema,
            readinessProbe: probeSchema,
            resources: z.object({
              requests: z.record(z.string(), z.string()),
              limits: z.record(z.string(), z.string()),
            }),
            securityContext: z.unknown(),
            volumeMounts: z.array(
              z.object({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().optional() }),
            ),
          }),
        ]),
      }),
    }),
  }),
});

const manifestSchema = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** Renders a directory below deploy/kubernetes with kustomize. */
export function renderManifests({ kustomize: [command, ...args] }: KubernetesTools, overlay: string): string {
  const directory = fileURLToPath(new URL(`../../deploy/kubernetes/${overlay}`, import.meta.url));
  const { status, stdout, stderr } = spawnSync(command, [...args, directory], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${overlay} cannot be rendered: ${stderr}`);
  return stdout;
}

/** The documents of rendered manifests. */
export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => manifestSchema.parse(document.toJS()));
}
