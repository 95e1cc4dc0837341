/**
 * The sockets of one Kafka client, so that closing it is final. The library ends a connection by waiting for its requests and
 * closing half of the socket; a connection that comes up while it is being closed, or that a retry opens afterwards, is
 * forgotten by everyone and keeps the process alive with a timer of ten times a second. Here no socket outlives its client.
 */
import net from 'node:net';
import tls from 'node:tls';

export interface SocketRequest {
  readonly host: string;
  readonly port: number;
  readonly ssl?: tls.ConnectionOptions | null;
  readonly onConnect: () => void;
}

export interface KafkaSockets {
  readonly factory: (request: SocketRequest) => net.Socket;
  /** Runs `disconnect` for a moment, then ends what is left: requests without an answer fail. */
  close(disconnect: () => Promise<void>): Promise<void>;
}

const KEEP_ALIVE_MS = 60_000;
/** For requests that are on their way to be answered. */
const ORDERLY_MS = 500;

export function createKafkaSockets(): KafkaSockets {
  const open = new Set<net.Socket>();
  let closed = false;

  return {
    factory({ host, port, ssl, onConnect }) {
      if (closed) throw new Error('the client is closed');
      const socket =
        ssl == null
          ? net.connect({ host, port }, onConnect)
          : tls.connect({ host, port, ...(net.isIP(host) === 0 ? { servername: host } : {}), ...ssl }, onConnect);
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      unrefOnce(socket);
      open.add(socket);
      socket.once('close', () => open.delete(socket));
      return socket;
    },
    async close(disconnect) {
      closed = true;
      const orderly = disconnect().catch(() => undefined);
      await within(orderly, ORDERLY_MS);
      // With an error, which is what the library listens to: it fails the requests and stops its timers.
      for (const socket of open) socket.destroy(new Error('the client was closed'));
      await within(orderly, ORDERLY_MS);
    },
  };
}

/**
 * The library lets a socket go again with every request that fails while it connects, and each time node waits for its
 * connection anew: with a broker away that fills the log with warnings of a leak.
 */
function unrefOnce(socket: net.Socket): void {
  const unref = socket.unref.bind(socket);
  let done = false;
  socket.unref = () => {
    if (!done) unref();
    done = true;
    return socket;
  };
}

async function within(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([work, limit]);
  clearTimeout(timer);
}
