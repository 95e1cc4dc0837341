/** A container's health: exit 0 when /livez of this very container answers 200. The port is the one that the service got. */
const port = process.env.SLUICE_HTTP_PORT ?? '8950';
const scheme = process.env.SLUICE_HTTP_TLS_CERT === undefined ? 'http' : 'https';
// Over TLS it asks itself by 127.0.0.1, a name that the certificate need not carry.
if (scheme === 'https') process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
try {
  const answer = await fetch(`${scheme}://127.0.0.1:${port}/livez`, { signal: AbortSignal.timeout(4000) });
  process.exitCode = answer.ok ? 0 : 1;
} catch {
  process.exitCode = 1;
}
