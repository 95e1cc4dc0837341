/**
 * An ObjectStore that fails as real ones do, by a seed: lost answers, refusals, slow-downs, cut bodies, listings that break
 * off, a full disk, puts that land late, and the death of the process. What it wraps stays correct: only the answers lie.
 *
 * For tests and drills (`sluice faults`): nothing else builds one.
 */
import { StoreError } from '../../lakehouse/store/store.ts';
import type { ObjectMeta, ObjectStore } from '../../lakehouse/store/store.ts';
import { seededRandom } from './seeded-random.ts';

export type FaultKind =
  /** Stored, then the connection drops (or a 500 comes): the caller cannot know. */
  | 'lost-answer'
  /** Not stored, but it looks just like a lost answer. */
  | 'lost-request'
  /** Not stored yet: it lands after a few more calls, unless something stands there by then. */
  | 'late-landing'
  /** Stored by this very call, answered as if it had been there before (a retry below us). */
  | 'exists-own'
  /** 409: another conditional request is in flight. Nothing stored. */
  | 'conflict'
  /** 500 or 503 before anything happened. */
  | 'unavailable'
  | 'slow-down'
  | 'disk-full'
  /** Credentials ran out: this call and the next ones are refused, until new ones are there. */
  | 'credentials-expired'
  /** A body shorter than announced, or of the wrong length. */
  | 'truncated'
  /** A listing that breaks off in the middle. */
  | 'partial-list'
  /** The process dies before the call, or after it was carried out. */
  | 'crash-before'
  | 'crash-after';

/** Probability a call, by kind; kinds that do not apply to a call are not drawn for it. */
export type FaultRates = Readonly<Partial<Record<FaultKind, number>>>;

export const EVERY_FAULT: FaultRates = {
  'lost-answer': 0.05,
  'lost-request': 0.04,
  'late-landing': 0.03,
  'exists-own': 0.04,
  conflict: 0.03,
  unavailable: 0.03,
  'slow-down': 0.03,
  'disk-full': 0.01,
  truncated: 0.02,
  'partial-list': 0.05,
  'crash-before': 0.01,
  'crash-after': 0.02,
};

/** What a store alone does wrong: the process lives on. */
export const STORE_FAULTS: FaultRates = { ...EVERY_FAULT, 'crash-before': 0, 'crash-after': 0 };

/** The process is gone: everything in memory is lost, nothing after this call happens. */
export class ProcessDied extends Error {
  constructor(where: string) {
    super(`the process died ${where}`);
    this.name = 'ProcessDied';
  }
}

export interface FaultStore {
  readonly store: ObjectStore;
  /** How often each fault struck. */
  readonly struck: ReadonlyMap<FaultKind, number>;
  /** No more faults, and what was to land late has landed. */
  calm(): Promise<void>;
}

type Call = 'get' | 'head' | 'list' | 'put' | 'put-if-absent' | 'delete';

const APPLIES: Readonly<Record<Call, readonly FaultKind[]>> = {
  get: ['unavailable', 'slow-down', 'truncated', 'crash-before', 'credentials-expired'],
  head: ['unavailable', 'slow-down', 'crash-before', 'credentials-expired'],
  list: ['unavailable', 'slow-down', 'partial-list', 'crash-before', 'credentials-expired'],
  put: [
    'lost-answer',
    'lost-request',
    'unavailable',
    'slow-down',
    'disk-full',
    'crash-before',
    'crash-after',
    'credentials-expired',
  ],
  'put-if-absent': [
    'lost-answer',
    'lost-request',
    'late-landing',
    'exists-own',
    'conflict',
    'unavailable',
    'slow-down',
    'disk-full',
    'crash-before',
    'crash-after',
    'credentials-expired',
  ],
  delete: ['lost-answer', 'unavailable', 'slow-down', 'crash-before', 'crash-after', 'credentials-expired'],
};

/** Calls until a late put lands, at most. */
const LATE_CALLS_MAX = 4;
/** Calls that expired credentials are refused, at most. */
const REFUSED_CALLS_MAX = 6;

export function createFaultStore(inner: ObjectStore, seed: number, rates: FaultRates = EVERY_FAULT): FaultStore {
  const random = seededRandom(seed);
  const struck = new Map<FaultKind, number>();
  const late: { callsLeft: number; readonly land: () => Promise<unknown> }[] = [];
  let calm = false;
  let refusedLeft = 0;

  /** Draws the fault of a call, if any, and lets late puts land. */
  const draw = async (call: Call): Promise<FaultKind | null> => {
    for (const put of late) put.callsLeft--;
    for (let at = late.length - 1; at >= 0; at--) {
      if ((late[at]?.callsLeft ?? 0) <= 0) await late.splice(at, 1)[0]?.land();
    }
    if (calm) return null;
    if (refusedLeft > 0) {
      refusedLeft--;
      return 'credentials-expired';
    }
    let roll = random.next();
    for (const kind of APPLIES[call]) {
      roll -= rates[kind] ?? 0;
      if (roll >= 0) continue;
      struck.set(kind, (struck.get(kind) ?? 0) + 1);
      if (kind === 'credentials-expired') refusedLeft = random.integer(REFUSED_CALLS_MAX);
      return kind;
    }
    return null;
  };

  const write = async <T>(call: Call, key: string, run: () => Promise<T>, whenOwn: T): Promise<T> => {
    const fault = await draw(call);
    if (fault === null) return run();
    throwIfRefused(fault, key);
    if (fault === 'crash-before') throw new ProcessDied(`before ${call} of ${key}`);
    if (fault === 'lost-request') throw lost(call, key);
    if (fault === 'late-landing') {
      late.push({ callsLeft: 1 + random.integer(LATE_CALLS_MAX), land: run });
      throw lost(call, key);
    }
    const result = await run();
    if (fault === 'crash-after') throw new ProcessDied(`after ${call} of ${key}`);
    if (fault === 'lost-answer') throw lost(call, key);
    return fault === 'exists-own' ? whenOwn : result;
  };

  const store: ObjectStore = {
    uri: inner.uri,
    get: async (key, range) => {
      const fault = await draw('get');
      if (fault !== null) {
        throwIfRefused(fault, key);
        if (fault === 'truncated') throw new StoreError('STORE_TRUNCATED', key, `the body of "${key}" broke off`);
        throw new ProcessDied(`before get of ${key}`);
      }
      return inner.get(key, range);
    },
    head: async (key) => {
      const fault = await draw('head');
      if (fault !== null) {
        throwIfRefused(fault, key);
        throw new ProcessDied(`before head of ${key}`);
      }
      return inner.head(key);
    },
    async *list(prefix, options): AsyncIterable<ObjectMeta> {
      const fault = await draw('list');
      if (fault === 'crash-before') throw new ProcessDied(`before list of ${prefix}`);
      if (fault !== null && fault !== 'partial-list') throwIfRefused(fault, prefix);
      let left = fault === 'partial-list' ? random.integer(4) : Infinity;
      for await (const meta of inner.list(prefix, options)) {
        if (left-- <= 0) throw new StoreError('STORE_UNAVAILABLE', prefix, `the listing of "${prefix}" broke off`);
        yield meta;
      }
    },
    put: (key, body) => write('put', key, () => inner.put(key, body), undefined),
    putIfAbsent: (key, body) => {
      // A late landing must store what was given now, whatever becomes of the caller's buffer.
      const copy = body.slice();
      return write('put-if-absent', key, () => inner.putIfAbsent(key, copy), 'exists' as const);
    },
    delete: (keys) => write('delete', keys[0] ?? '', () => inner.delete(keys), undefined),
    close: () => inner.close(),
  };

  return {
    store,
    struck,
    calm: async () => {
      calm = true;
      for (const put of late.splice(0)) await put.land();
    },
  };
}

function throwIfRefused(fault: FaultKind, key: string): void {
  switch (fault) {
    case 'unavailable':
    case 'conflict':
      throw new StoreError('STORE_UNAVAILABLE', key, `injected: no answer for "${key}"`);
    case 'slow-down':
      throw new StoreError('STORE_THROTTLED', key, `injected: slow down for "${key}"`);
    case 'credentials-expired':
      throw new StoreError('STORE_ACCESS_DENIED', key, `injected: credentials expired before "${key}"`);
    case 'disk-full':
      throw new StoreError('STORE_DISK_FULL', key, `injected: no space for "${key}"`);
    default:
  }
}

/** Unconditional calls may simply be made again, so their lost answers are no question. */
function lost(call: Call, key: string): StoreError {
  const code = call === 'put-if-absent' ? 'STORE_OUTCOME_UNKNOWN' : 'STORE_UNAVAILABLE';
  return new StoreError(code, key, `injected: the answer for "${key}" was lost`);
}
