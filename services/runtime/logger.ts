/** Structured logs: one JSON line an event on stderr. Fields are fixed names; row data and secrets never stand in them. */
import { pino, type Logger } from 'pino';

export type { Logger };

export interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly pipeline: string;
}

/** Whatever a driver puts into its error: credentials in URLs are cut before they can be written. */
export function withoutCredentials(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi, '$1***@');
}

export function createLogger(options: LoggerOptions): Logger {
  return pino(
    {
      level: options.level,
      base: { pipeline: options.pipeline },
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: describeError },
      redact: { paths: ['password', 'token', '*.password', '*.token'], censor: '***' },
    },
    pino.destination({ fd: 2, sync: true }),
  );
}

/** An error as it may be logged: name, code, message without credentials, and its causes. No driver detail fields (they can hold rows). */
export function describeError(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: withoutCredentials(String(error)) };
  const code = (error as { code?: unknown }).code;
  return {
    name: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    message: withoutCredentials(error.message),
    stack: error.stack === undefined ? undefined : withoutCredentials(error.stack),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
