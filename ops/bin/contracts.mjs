#!/usr/bin/env node
import('../../dist/services/cli/contracts/main.js').catch((error) => {
  if (error?.code === 'ERR_MODULE_NOT_FOUND' && String(error.message).includes('dist/services/cli/contracts/main.js')) {
    process.stderr.write('contracts is not built yet: run `npm ci` (or `npm run build`) first\n');
    process.exitCode = 3;
    return;
  }
  throw error;
});
