import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { z } from 'zod';

const healthcheckSchema = z.object({
  test: z.array(z.string()),
  interval: z.string(),
  timeout: z.string(),
  retries: z.number(),
  start_period: z.string(),
});

const serviceSchema = z.object({
  image: z.string(),
  build: z.object({ context: z.literal('.'), dockerfile: z.literal('deploy/Dockerfile') }).optional(),
  user: z.string().optional(),
  command: z.array(z.string()).optional(),
  entrypoint: z.array(z.string()).optional(),
  profiles: z.array(z.string()).optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).optional(),
  environment: z.record(z.string(), z.string()).optional(),
  ports: z.array(z.string()).optional(),
  volumes: z.array(z.string()).optional(),
  healthcheck: healthcheckSchema.optional(),
  stop_grace_period: z.string().optional(),
  read_only: z.boolean().optional(),
  restart: z.string(),
  security_opt: z.array(z.string()),
  mem_limit: z.string().optional(),
  logging: z.object({ driver: z.string(), options: z.record(z.string(), z.string()) }).optional(),
});

const composeSchema = z.object({
  services: z.record(z.string(), serviceSchema),
  volumes: z.record(z.string(), z.unknown()),
});

/** One service of docker-compose.yml. */
export type ComposeService = z.infer<typeof serviceSchema>;

/** Reads docker-compose.yml of this repository. */
export async function readComposeFile(): Promise<z.infer<typeof composeSchema>> {
  return composeSchema.parse(parse(await readRepositoryFile('docker-compose.yml')));
}

/** The text of a file, by its path from the root of the repository. */
export function readRepositoryFile(path: string): Promise<string> {
  return readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
}
