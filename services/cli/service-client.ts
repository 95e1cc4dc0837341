/** Asks a running service: its state, or a command. What it refuses comes back as the error that it told. */
import { readFileSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../runtime/config.ts';
import type { ControlFailure } from '../runtime/control-routes.ts';
import { codeOf } from '../runtime/codes.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';

export interface ServiceCall {
  /** `/status`, `/control/…` */
  readonly path: string;
  /** Sent as JSON by POST; without it the call is a GET. */
  readonly body?: object;
  /** Endpoint given by the user. */
  readonly url?: string | undefined;
  /** The half that must answer, where reader and stream run apart, each on its own port. */
  readonly half?: 'reader' | 'stream';
  readonly timeoutMs?: number;
}

const DEFAULT_PORT = 8950;
const HALF_PORTS = { reader: 8951, stream: 8952 } as const;
const TIMEOUT_MS = 10_000;
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

/** @throws SluiceError SERVICE_UNREACHABLE (exit 3), or what the service answered */
export async function callService<T>(config: Config, call: ServiceCall): Promise<T> {
  return askOrigins<T>(originsOf(config, call), config, call);
}

const POLLS_MAX = 6;
const POLL_AGAIN_MS = 200;

/** A question of how a job goes, which changes nothing: the job goes on though a connection breaks. */
export async function pollService<T>(config: Config, call: ServiceCall): Promise<T> {
  for (let polls = 1; ; polls++) {
    try {
      return await callService<T>(config, call);
    } catch (error) {
      if (polls === POLLS_MAX || !(error instanceof SluiceError) || error.code !== 'SERVICE_UNREACHABLE') throw error;
    }
    await sleep(POLL_AGAIN_MS * 2 ** (polls - 1));
  }
}

/** Nothing listens there. A service that is there and does not answer still owns its tables. */
export function nobodyServes(error: unknown): boolean {
  return error instanceof SluiceError && error.code === 'SERVICE_UNREACHABLE' && isRefused(error.cause);
}

const isRefused = (cause: unknown): boolean =>
  (cause as { code?: unknown } | null | undefined)?.code === 'ECONNREFUSED';

/** One after the other, until one answers. */
export async function askOrigins<T>(origins: readonly string[], config: Config, call: ServiceCall): Promise<T> {
  let last: unknown = null;
  for (const origin of origins) {
    let answer: Answer;
    try {
      answer = await send(new URL(call.path, origin), config, call);
      if (answer.status === 200) return JSON.parse(answer.body) as T;
    } catch (cause) {
      // Where one is there that does not answer, that nobody listens elsewhere says nothing.
      if (last === null || (nobodyServes(last) && !isRefused(cause)))
        last = unreachable(origin, cause instanceof Error ? cause.message : '', cause);
      continue;
    }
    const failure = failureOf(answer, origin);
    // This half is not here, or this service is an older one: the next port may have it.
    if (failure.code !== 'OTHER_HALF' && failure.code !== 'SERVICE_UNREACHABLE') throw failure;
    last = failure;
  }
  throw last;
}

function originsOf(config: Config, call: ServiceCall): readonly string[] {
  if (call.url !== undefined) return [call.url];
  const scheme = config.http.tls.cert === null ? 'http' : 'https';
  const host = config.http.host === '0.0.0.0' ? '127.0.0.1' : config.http.host;
  const ports = [config.http.port];
  if (config.http.port === DEFAULT_PORT && call.half !== undefined) ports.push(HALF_PORTS[call.half]);
  return ports.map((port) => `${scheme}://${host}:${port}`);
}

export function unreachable(origin: string, why: string, cause?: unknown): SluiceError {
  return new SluiceError('SERVICE_UNREACHABLE', `no sluice service answers at ${origin}: ${why}`, {
    exit: ExitCode.environment,
    remedy: 'start it with `sluice run`, or name its endpoint with --url',
    cause,
  });
}

function failureOf(answer: Answer, origin: string): SluiceError {
  try {
    const { error, code, remedy, exit } = JSON.parse(answer.body) as Partial<ControlFailure>;
    if (typeof error === 'string' && typeof code === 'string')
      return new SluiceError(code, error, { exit: exitOf(exit, code), remedy: remedy ?? '' });
  } catch {
    // Not one of ours: told below by its status.
  }
  return unreachable(origin, `it answered ${answer.status}${answer.status === 401 ? ' (http.token is wrong)' : ''}`);
}

/** An error that brings no exit code of its own ends as its code says. */
function exitOf(exit: number | null | undefined, code: string): ExitCode {
  return Object.values(ExitCode).find((known) => known === exit) ?? codeOf(code)?.entry.exit ?? ExitCode.findings;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

function send(url: URL, config: Config, call: ServiceCall): Promise<Answer> {
  const secure = url.protocol === 'https:';
  const payload = call.body === undefined ? null : JSON.stringify(call.body);
  const timeoutMs = call.timeoutMs ?? TIMEOUT_MS;
  return new Promise((resolve, reject) => {
    const options = {
      method: payload === null ? 'GET' : 'POST',
      headers: {
        ...(config.http.token === null ? {} : { authorization: `Bearer ${config.http.token}` }),
        ...(payload === null ? {} : { 'content-type': 'application/json' }),
      },
      timeout: timeoutMs,
      ...(secure ? tlsOptions(config) : {}),
    };
    const request = (secure ? httpsRequest : httpRequest)(url, options, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        body += chunk;
        if (body.length > ANSWER_BYTES_MAX) request.destroy(new Error('the answer is too large'));
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
    request.on('error', reject);
    request.end(payload ?? undefined);
  });
}

/** Our own certificate is pinned: the service and this command read the same configuration. */
function tlsOptions(config: Config): object {
  const { ca, cert, key } = config.http.tls;
  if (cert === null || key === null) return {};
  const pinned = [ca, cert].filter((path) => path !== null).map((path) => readFileSync(path));
  return {
    agent: new Agent({
      ca: pinned,
      cert: readFileSync(cert),
      key: readFileSync(key),
      checkServerIdentity: () => undefined,
    }),
  };
}
