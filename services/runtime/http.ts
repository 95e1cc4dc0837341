/**
 * The endpoint of a running service: /livez (= /healthz) asks only whether the loop moves, /readyz whether the outside
 * parts answered within 60 s, /metrics is Prometheus text, /status the same object as `sluice status --json`.
 */
import { timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fastify, { type FastifyInstance } from 'fastify';
import { addControlRoutes, type ControlActions } from './control-routes.ts';
import { exactJson } from './exact-json.ts';
import type { Metrics } from './metrics.ts';

export interface Health {
  readonly alive: () => boolean;
  /** Why the service is not ready, one line each; empty when it is. */
  readonly notReady: () => readonly string[];
  readonly status: () => Promise<unknown>;
}

export interface HttpOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string | null;
  readonly tls: { readonly cert: string | null; readonly key: string | null; readonly ca: string | null };
  readonly metrics: Metrics;
  /** Called before /metrics is answered, so that its gauges say what /status says at that moment. */
  readonly measure?: () => void;
  readonly health: Health;
  /** What POST /control/… does, by name; none = no such paths. */
  readonly control?: ControlActions;
}

export interface HttpServer {
  readonly url: string;
  close(): Promise<void>;
}

export async function startHttp(options: HttpOptions): Promise<HttpServer> {
  const app = createApp(options);
  for (const path of ['/livez', '/healthz']) {
    app.get(path, async (_request, reply) => {
      const alive = options.health.alive();
      void reply.code(alive ? 200 : 503);
      return { alive };
    });
  }
  app.get('/readyz', async (_request, reply) => {
    const reasons = options.health.notReady();
    void reply.code(reasons.length === 0 ? 200 : 503);
    return { ready: reasons.length === 0, reasons };
  });
  app.addHook('onRequest', async (request, reply) => {
    const guarded = request.url.startsWith('/metrics') || request.url.startsWith('/status');
    if (!guarded || allowed(options.token, request.headers.authorization)) return;
    void reply.code(401).send({ error: 'this path asks for the token in http.token, as Authorization: Bearer …' });
  });
  app.get('/metrics', async (_request, reply) => {
    options.measure?.();
    void reply.type(options.metrics.registry.contentType);
    return options.metrics.registry.metrics();
  });
  app.get('/status', async (_request, reply) => {
    void reply.type('application/json');
    return JSON.stringify(await options.health.status(), exactJson);
  });
  if (options.control !== undefined) {
    const { host, token } = options;
    addControlRoutes(app, options.control, { host, token, allowed: (header) => allowed(token, header) });
  }
  const url = await app.listen({ host: options.host, port: options.port });
  return { url, close: () => app.close() };
}

function createApp(options: HttpOptions): FastifyInstance {
  const { cert, key, ca } = options.tls;
  if (cert === null || key === null) return fastify({ logger: false, forceCloseConnections: true });
  return fastify({
    logger: false,
    forceCloseConnections: true,
    https: {
      cert: readFileSync(cert),
      key: readFileSync(key),
      ...(ca === null ? {} : { ca: readFileSync(ca), requestCert: true, rejectUnauthorized: true }),
    },
  }) as unknown as FastifyInstance; // the https instance differs only in the type of its raw server
}

function allowed(token: string | null, header: string | undefined): boolean {
  if (token === null) return true;
  const expected = Buffer.from(`Bearer ${token}`);
  const given = Buffer.from(header ?? '');
  return expected.length === given.length && timingSafeEqual(expected, given);
}
