#!/usr/bin/env -S MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=1048576 node
// As ops/Dockerfile: without these glibc keeps about twice the memory that is in use.
import('../../dist/services/cli/main.js').catch((error) => {
  if (error?.code === 'ERR_MODULE_NOT_FOUND' && String(error.message).includes('dist/services/cli/main.js')) {
    process.stderr.write('sluice is not built yet: run `npm ci` (or `npm run build`) first\n');
    process.exitCode = 3;
    return;
  }
  throw error;
});
