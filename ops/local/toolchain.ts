/** Programs of this machine that fetch or run the servers which are not npm packages: java, mvn, go, python3, openssl. */
import { accessSync, constants } from 'node:fs';
import { execFile } from 'node:child_process';
import { delimiter, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { LocalServerError } from './local-server-error.ts';

const run = promisify(execFile);

/** Full path of a program on PATH, or null. */
export function findTool(name: string): string | null {
  const suffixes = process.platform === 'win32' ? ['.exe', '.cmd', '.bat'] : [''];
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const suffix of suffixes) {
      const path = join(folder, name + suffix);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not here.
      }
    }
  }
  return null;
}

/** Runs a tool to its end. @throws SERVER_UNAVAILABLE with the tool's last words when it is absent or fails */
export async function runTool(
  tool: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly what: string },
): Promise<string> {
  const path = isAbsolute(tool) ? tool : findTool(tool);
  if (path === null) {
    throw new LocalServerError('SERVER_UNAVAILABLE', `${options.what} needs \`${tool}\`, which is not on PATH`);
  }
  try {
    const settings = { maxBuffer: 64 << 20, ...(options.cwd === undefined ? {} : { cwd: options.cwd }) };
    const { stdout } = await run(path, [...args], { ...settings, env: { ...process.env, ...options.env } });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const words = `${stdout}\n${stderr}`.trim().split('\n').slice(-8).join('\n');
    throw new LocalServerError('SERVER_UNAVAILABLE', `${options.what}: \`${tool}\` failed:\n${words}`, {
      cause: error,
    });
  }
}
