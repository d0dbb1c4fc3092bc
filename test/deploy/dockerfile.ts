import { readRepositoryFile } from './compose-file.js';

/** One instruction, with continued lines joined. */
export interface DockerInstruction {
  name: string;
  text: string;
}

/** One `FROM` and its instructions. */
export interface DockerStage {
  image: string;
  name?: string;
  instructions: DockerInstruction[];
}

/** The stages of this repository's Dockerfile. */
export async function readDockerfile(): Promise<DockerStage[]> {
  const text = (await readRepositoryFile('deploy/Dockerfile')).replace(/\\\n\s*/g, '');
  const stages: DockerStage[] = [];
  for (const line of text.split('\n')) {
    const match = /^([A-Z]+)\s+(.*)$/.exec(line);
    if (match?.[1] === undefined || match[2] === undefined) continue;
    const [, name, rest] = match;
    if (name === 'FROM') {
      const [image = '', , stage] = rest.split(/\s+/);
      stages.push({ image, ...(stage === undefined ? {} : { name: stage }), instructions: [] });
    } else {
      stages.at(-1)?.instructions.push({ name, text: rest });
    }
  }
  return stages;
}

/** The text of the last instruction with a name in a stage. */
export function lastInstruction(stage: DockerStage | undefined, name: string): string | undefined {
  return stage?.instructions.filter((each) => each.name === name).at(-1)?.text;
}

/** The sources and the target of a COPY. `from` is its source stage. */
export function parseCopy(text: string): { from?: string; sources: string[]; target: string } {
  const words = text.split(/\s+/);
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length);
  const paths = words.filter((word) => !word.startsWith('--'));
  return { ...(from === undefined ? {} : { from }), sources: paths.slice(0, -1), target: paths.at(-1) ?? '.' };
}
