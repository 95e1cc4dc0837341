/** A server process that can be ended, hurt and begun again: what Kafka and the S3 server have in common. */
import type { ServerProcess } from './server-process.ts';

export interface RestartableServer {
  readonly running: boolean;
  /** SIGTERM, and its end awaited; nothing when it does not run. */
  stop(): Promise<void>;
  readonly kill: () => Promise<void>;
  /** Stops it in order if it runs, then starts it on the same ports. */
  readonly restart: () => Promise<void>;
  readonly pause: () => void;
  readonly resume: () => void;
}

/** @param start resolves once the server takes connections. @throws LocalServerError */
export async function restartable(
  start: () => Promise<ServerProcess>,
  stopTimeoutMs: number,
): Promise<RestartableServer> {
  let server = await start();
  const stop = async (): Promise<void> => {
    if (!server.running) return;
    server.resume();
    server.signal('SIGTERM');
    await server.waitForExit(stopTimeoutMs);
  };
  return {
    get running() {
      return server.running;
    },
    stop,
    kill: () => server.kill(),
    async restart() {
      await stop();
      server = await start();
    },
    pause: () => server.pause(),
    resume: () => server.resume(),
  };
}
