import { describe, expect, it } from 'vitest';
import { parseConnection, startupOptions, tlsAttempts } from './connection.ts';

const modes = (url: string) =>
  tlsAttempts(parseConnection(url)).map(
    (attempt) =>
      `${attempt.tls ? 'tls' : 'plain'}${attempt.verifyChain ? '+chain' : ''}${attempt.verifyHost ? '+host' : ''}`,
  );

describe('connection', () => {
  it('reads URLs, keyword strings and parts', () => {
    expect(parseConnection('postgres://u%40x:p%2Fw@[::1]:5433/d%20b?application_name=me')).toMatchObject({
      host: '::1',
      port: 5433,
      user: 'u@x',
      password: 'p/w',
      database: 'd b',
      applicationName: 'me',
      sslmode: 'prefer',
    });
    expect(parseConnection(`host=db port=6000 user=me password='a \\'b\\' c' dbname=x sslmode=disable`)).toMatchObject({
      host: 'db',
      port: 6000,
      password: "a 'b' c",
      database: 'x',
      sslmode: 'disable',
    });
    expect(parseConnection('postgres://h/x', { user: 'u', database: 'y', sslmode: 'require' })).toMatchObject({
      host: 'h',
      user: 'u',
      database: 'y',
      sslmode: 'require',
    });
    expect(parseConnection('postgresql:///x?host=/var/run/postgresql')).toMatchObject({ host: '/var/run/postgresql' });
  });

  it('means by sslmode what libpq means', () => {
    expect(modes('postgres://h/d?sslmode=disable')).toEqual(['plain']);
    expect(modes('postgres://h/d?sslmode=allow')).toEqual(['plain', 'tls']);
    expect(modes('postgres://h/d')).toEqual(['tls', 'plain']);
    expect(modes('postgres://h/d?sslmode=require')).toEqual(['tls']);
    expect(modes('postgres://h/d?sslmode=require&sslrootcert=/ca.pem')).toEqual(['tls+chain']);
    expect(modes('postgres://h/d?sslmode=verify-ca&sslrootcert=/ca.pem')).toEqual(['tls+chain']);
    expect(modes('postgres://h/d?sslmode=verify-full&sslrootcert=/ca.pem')).toEqual(['tls+chain+host']);
    expect(modes('postgres://h/d?sslrootcert=system')).toEqual(['tls+chain+host']);
    expect(modes('postgres:///d?host=/tmp&sslmode=require')).toEqual(['plain']);
    expect(() => modes('postgres://h/d?sslmode=verify-full')).toThrow(/root certificate/);
  });

  it.each([
    ['postgres://u:p@ss:w@h/d?x=1', /'x', which libpq does not know/],
    ['postgres://h/d?sslmode=on', /sslmode 'on'/],
    ['postgres://a,b/d', /several hosts/],
    ['postgres://h:99999/d', /no URL/],
    ['postgres://u:%zz@h/d', /%25/],
    ['just text', /neither/],
    ['postgres://h/d?sslmode=require&sslrootcert=system', /only verify-full/],
  ])('refuses %s without repeating it', (url, message) => {
    expect(() => parseConnection(url)).toThrow(message);
  });

  it('fixes the text forms of every session behind the user’s own options', () => {
    const options = startupOptions(parseConnection('postgres://h/d?options=-c%20work_mem%3D64MB'));
    expect(options).toMatch(/^-c work_mem=64MB -c TimeZone=UTC .*-c row_security=off/);
  });
});
