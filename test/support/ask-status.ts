/** What a running service says of itself, without a process for each question. */
export interface ServiceStatus {
  readonly reader: { readonly announced: readonly string[] } | null;
  readonly tables: readonly { readonly table: string; readonly state: string }[];
}

/** Null while none answers on that port. */
export async function askStatus(port: number): Promise<ServiceStatus | null> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/status`);
    return (await answer.json()) as ServiceStatus;
  } catch {
    return null;
  }
}
