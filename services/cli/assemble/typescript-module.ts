/** Imports a user's TypeScript module: Node 20 cannot read TypeScript itself. */
import { tsImport } from 'tsx/esm/api';

export const isTypeScript = (path: string): boolean => /\.[cm]?tsx?$/.test(path);

export async function importTypeScript(url: string): Promise<unknown> {
  return (await tsImport(url, import.meta.url)) as unknown;
}
