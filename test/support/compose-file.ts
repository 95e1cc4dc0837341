/** docker-compose.yml as data, and how one of its containers looks when it is an ordinary process of this machine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { REPOSITORY } from './source-files.ts';

export interface ComposeService {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly user: string;
  readonly read_only?: boolean;
  readonly cap_drop: readonly string[];
  readonly volumes?: readonly string[];
  readonly secrets?: readonly string[];
  readonly ports?: readonly string[];
  readonly container_name?: string;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly deploy: { readonly resources: { readonly limits: { readonly cpus: string; readonly memory: string } } };
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string };
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

export function readCompose(): ComposeFile {
  return parse(readFileSync(join(REPOSITORY, 'docker-compose.yml'), 'utf8'), { merge: true }) as ComposeFile;
}

/** Every path and address of the container world, longest first, and what stands for it here. */
export type Mapping = readonly (readonly [string, string])[];

export function mapText(text: string, mapping: Mapping): string {
  let mapped = text;
  for (const [inside, here] of mapping.toSorted((a, b) => b[0].length - a[0].length))
    mapped = mapped.replaceAll(inside, here);
  return mapped;
}

export function mapEnvironment(service: ComposeService, mapping: Mapping): Record<string, string> {
  return Object.fromEntries(
    Object.entries(service.environment ?? {}).map(([name, value]) => [name, mapText(String(value), mapping)]),
  );
}

/** The last stage's ENTRYPOINT or CMD of ops/Dockerfile's target, in its JSON form. */
export function dockerfileInstruction(target: string, instruction: 'ENTRYPOINT' | 'CMD' | 'USER'): string[] {
  const text = readFileSync(join(REPOSITORY, 'ops/Dockerfile'), 'utf8');
  const stage = text.split(/^FROM /m).find((part) => new RegExp(`^\\S+ AS ${target}\\n`).test(part));
  const value = new RegExp(`^${instruction} (.*)$`, 'm').exec(stage ?? '')?.[1];
  if (value === undefined) throw new Error(`ops/Dockerfile: stage ${target} has no ${instruction}`);
  return value.startsWith('[') ? (JSON.parse(value) as string[]) : [value];
}
