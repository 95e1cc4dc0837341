/**
 * POST /control/NAME: commands to the running service, which alone writes its tables. JSON in and out. Guarded by http.token;
 * without a token only on a loopback address, and never from a page in a browser (such a request carries an Origin).
 */
import type { FastifyInstance } from 'fastify';
import { ConfigError } from './errors.ts';
import { exactJson } from './exact-json.ts';

export type ControlAction = (body: ControlBody) => Promise<unknown>;
export type ControlBody = Readonly<Record<string, unknown>>;
export type ControlActions = Readonly<Record<string, ControlAction>>;

export interface ControlGuard {
  readonly host: string;
  readonly token: string | null;
  readonly allowed: (authorization: string | undefined) => boolean;
}

/** What a refused or failed command answers. */
export interface ControlFailure {
  readonly error: string;
  readonly code: string;
  readonly remedy: string;
  /** Exit code for the command that asked; null = as its own code says. */
  readonly exit: number | null;
}

const BODY_BYTES_MAX = 1024 * 1024;
const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

export function addControlRoutes(app: FastifyInstance, actions: ControlActions, guard: ControlGuard): void {
  for (const [name, action] of Object.entries(actions)) {
    app.post(`/control/${name}`, { bodyLimit: BODY_BYTES_MAX }, async (request, reply) => {
      void reply.type('application/json');
      const refusal = refuse(guard, request.headers);
      if (refusal !== null) {
        void reply.code(guard.token === null ? 403 : 401);
        return JSON.stringify(refusal);
      }
      try {
        return JSON.stringify(await action(bodyOf(request.body)), exactJson);
      } catch (error) {
        const failure = failureOf(error);
        void reply.code(failure.exit === 2 ? 400 : 409);
        return JSON.stringify(failure);
      }
    });
  }
}

function refuse(
  guard: ControlGuard,
  headers: { readonly authorization?: string | undefined; readonly origin?: string | undefined },
): ControlFailure | null {
  if (guard.token !== null) {
    if (guard.allowed(headers.authorization)) return null;
    return denied('this path asks for the token in http.token, as Authorization: Bearer …');
  }
  if (headers.origin !== undefined) return denied('without http.token no page in a browser may send commands');
  if (!LOOPBACK.has(guard.host)) return denied(`without http.token no commands are taken on ${guard.host}`);
  return null;
}

function denied(error: string): ControlFailure {
  return { error, code: 'CONTROL_DENIED', remedy: 'set http.token for the service and for this command', exit: 2 };
}

function bodyOf(body: unknown): ControlBody {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as ControlBody;
  throw new ConfigError('a command is a JSON object', 'send application/json');
}

function failureOf(error: unknown): ControlFailure {
  const { code, remedy, exit } = (error ?? {}) as { code?: unknown; remedy?: unknown; exit?: unknown };
  return {
    error: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : 'FAILED',
    remedy: typeof remedy === 'string' ? remedy : '',
    exit: typeof exit === 'number' ? exit : null,
  };
}

/** One text of a command's body. @throws ConfigError */
export function textField(body: ControlBody, name: string): string {
  const value = body[name];
  if (typeof value === 'string' && value !== '') return value;
  throw new ConfigError(`the command needs '${name}'`, 'give a text');
}

/** A list of texts; null when it is absent. @throws ConfigError */
export function textList(body: ControlBody, name: string): readonly string[] | null {
  const value = body[name];
  if (value === undefined || value === null) return null;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value as string[];
  throw new ConfigError(`'${name}' must be a list of texts`, 'give a JSON array');
}
