/** Imports a user's TypeScript module: Node 20 cannot read TypeScript itself. */
export const isTypeScript = (path: string): boolean => /\.[cm]?tsx?$/.test(path);

export async function importTypeScript(url: string): Promise<unknown> {
  // Few sinks are TypeScript, and the loader with its compiler would be a tenth of every start.
  const { tsImport } = await import('tsx/esm/api');
  return (await tsImport(url, import.meta.url)) as unknown;
}
