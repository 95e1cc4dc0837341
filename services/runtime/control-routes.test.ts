import fastify from 'fastify';
import { describe, expect, it } from 'vitest';
import { addControlRoutes, textField, textList, type ControlGuard } from './control-routes.ts';
import { ConfigError, SluiceError } from './errors.ts';

const OPEN: ControlGuard = { host: '127.0.0.1', token: null, allowed: () => true };

async function post(guard: ControlGuard, payload: unknown, headers: Record<string, string> = {}, path = 'echo') {
  const app = fastify();
  addControlRoutes(
    app,
    {
      echo: (body) => Promise.resolve({ body, big: 9007199254740993n }),
      refuse: () => Promise.reject(new ConfigError('wrong', 'do right')),
      fail: () => Promise.reject(new SluiceError('X', 'broken', { exit: 4, remedy: 'mend' })),
    },
    guard,
  );
  const { statusCode, body } = await app.inject({
    method: 'POST',
    url: `/control/${path}`,
    headers: { 'content-type': 'application/json', ...headers },
    payload: JSON.stringify(payload),
  });
  await app.close();
  return { statusCode, body: JSON.parse(body) as unknown };
}

describe('control routes', () => {
  it('hand the body over and answer exact numbers', async () => {
    expect(await post(OPEN, { a: 1 })).toEqual({ statusCode: 200, body: { body: { a: 1 }, big: '9007199254740993' } });
  });

  it('tell failures with what to do and how to exit', async () => {
    expect(await post(OPEN, {}, {}, 'refuse')).toEqual({
      statusCode: 400,
      body: { error: 'wrong', code: 'CONFIG', remedy: 'do right', exit: 2 },
    });
    expect(await post(OPEN, {}, {}, 'fail')).toMatchObject({ statusCode: 409, body: { code: 'X', exit: 4 } });
    expect(await post(OPEN, [1])).toMatchObject({ statusCode: 400 });
  });

  it('ask for the token; without one, take no page and no other host', async () => {
    const guarded = { host: '0.0.0.0', token: 't', allowed: (header: string | undefined) => header === 'Bearer t' };
    expect((await post(guarded, {})).statusCode).toBe(401);
    expect((await post(guarded, {}, { authorization: 'Bearer t' })).statusCode).toBe(200);
    expect((await post(OPEN, {}, { origin: 'http://127.0.0.1:8950' })).statusCode).toBe(403);
    expect((await post({ ...OPEN, host: '0.0.0.0' }, {})).statusCode).toBe(403);
  });

  it('know only JSON, and refuse what is too large', async () => {
    expect((await post(OPEN, {}, { 'content-type': 'text/xml' })).statusCode).toBe(415);
    expect((await post(OPEN, { a: 'x'.repeat(1024 * 1024) })).statusCode).toBe(413);
  });

  it('read fields by their type', () => {
    expect(textField({ a: 'x' }, 'a')).toBe('x');
    expect(() => textField({ a: 1 }, 'a')).toThrow(ConfigError);
    expect(textList({}, 'a')).toBeNull();
    expect(textList({ a: ['x'] }, 'a')).toEqual(['x']);
    expect(() => textList({ a: [1] }, 'a')).toThrow(ConfigError);
  });
});
