#!/usr/bin/env node
/**
 * Writes random secrets for docker-compose.yml into ops/compose/secrets/ (out of version control); files that are there
 * stay as they are. Another folder can be named as the argument.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = process.argv[2] ?? fileURLToPath(new URL('./secrets', import.meta.url));
mkdirSync(folder, { recursive: true, mode: 0o755 });

/** Readable by all: the containers' users are not ours. The folder is on this machine only; restrict it as yours asks. */
function keep(name, make) {
  const path = join(folder, name);
  if (!existsSync(path)) writeFileSync(path, make(), { mode: 0o644 });
  return readFileSync(path, 'utf8').trim();
}

const random = () => randomBytes(24).toString('base64url');
keep('postgres_password', random);
keep('sluice_password', random);
keep('http_token', random);
const accessKey = keep('s3_access_key', () => 'sluice');
const secretKey = keep('s3_secret_key', random);
keep('aws_credentials', () => `[default]\naws_access_key_id = ${accessKey}\naws_secret_access_key = ${secretKey}\n`);
process.stdout.write(`secrets are in ${folder}\n`);
