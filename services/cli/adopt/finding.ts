/** What the look before a takeover found: shown by `sluice adopt` and `sluice doctor`, one line each. */
export interface AdoptFinding {
  /** `refused` keeps everything as it is. */
  readonly level: 'ok' | 'note' | 'refused';
  /** The word of the named state or error, as `sluice explain` knows it; null when nothing is wrong. */
  readonly word: string | null;
  /** The table, slot, publication or topic that it is about. */
  readonly about: string;
  readonly detail: string;
  /** What to do; empty where there is nothing to do. */
  readonly fix: string;
}

export const fine = (about: string, detail: string): AdoptFinding => ({
  level: 'ok',
  word: null,
  about,
  detail,
  fix: '',
});
export const note = (about: string, detail: string, fix: string): AdoptFinding => ({
  level: 'note',
  word: null,
  about,
  detail,
  fix,
});
export const refused = (word: string, about: string, detail: string, fix: string): AdoptFinding => ({
  level: 'refused',
  word,
  about,
  detail,
  fix,
});
