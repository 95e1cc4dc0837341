import { afterEach, describe, expect, it } from 'vitest';
import { startHttp, type HttpServer } from './http.ts';
import { createMetrics, type Metrics } from './metrics.ts';

let server: HttpServer | undefined;
afterEach(async () => {
  await server?.close();
});

async function start(
  options: { token?: string; alive?: boolean; reasons?: string[]; measure?: (metrics: Metrics) => void } = {},
): Promise<string> {
  const metrics = createMetrics();
  server = await startHttp({
    host: '127.0.0.1',
    port: 0,
    token: options.token ?? null,
    tls: { cert: null, key: null, ca: null },
    metrics,
    measure: () => options.measure?.(metrics),
    health: {
      alive: () => options.alive ?? true,
      notReady: () => options.reasons ?? [],
      status: () => Promise.resolve({ lsn: 9007199254740993n }),
    },
  });
  return server.url;
}

describe('http endpoint', () => {
  it('answers live, ready, metrics and status', async () => {
    const url = await start();
    for (const path of ['/livez', '/healthz', '/readyz']) expect((await fetch(url + path)).status).toBe(200);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('sluice_reader_bytes_total 0');
    expect(await (await fetch(`${url}/status`)).json()).toEqual({ lsn: '9007199254740993' });
  });

  it('measures when it is asked, so that metrics and status agree', async () => {
    let lag = 7;
    const url = await start({ measure: ({ lagBytes }) => lagBytes.set({ table: 'public.t' }, lag) });
    const shown = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
    expect(await shown()).toContain('sluice_lag_bytes{table="public.t"} 7');
    lag = 8;
    expect(await shown()).toContain('sluice_lag_bytes{table="public.t"} 8');
  });

  it('says why it is not ready, and that the loop has stopped', async () => {
    const url = await start({ alive: false, reasons: ['log: no answer for 61 s'] });
    expect((await fetch(`${url}/livez`)).status).toBe(503);
    const ready = await fetch(`${url}/readyz`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toEqual({ ready: false, reasons: ['log: no answer for 61 s'] });
  });

  it('guards metrics and status by the token, not the probes', async () => {
    const url = await start({ token: 't0ken' });
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    expect((await fetch(`${url}/metrics`)).status).toBe(401);
    expect((await fetch(`${url}/status`, { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
    expect((await fetch(`${url}/status`, { headers: { authorization: 'Bearer t0ken' } })).status).toBe(200);
  });
});
