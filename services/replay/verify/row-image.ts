/**
 * What verify keeps of a row: a hash of its canonical text to compare by, and of each cell its length and a short hash, so that
 * differing columns can be named. The values themselves are not kept: neither memory nor a report holds them.
 */
import { hash } from 'node:crypto';

export interface RowImage {
  readonly print: string;
  /** A cell: `~` for NULL, else `<octets>.<8 hex digits>`; one blank between two. */
  readonly cells: string;
  /** Equal rows of a table without key; above 1 in a table with a key, its rows hide behind each other. */
  readonly copies: number;
  /** Another one once the row was written again, were it with the same values (xmin, the event's place). Absent: not known. */
  readonly version?: string;
}

/** Keys by canonical key text. */
export type Images = Map<string, RowImage>;

export function imageOf(text: string, version?: string): RowImage {
  const bytes = Buffer.from(text, 'utf8');
  const cells: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (bytes[at] === 0x7e) {
      cells.push('~');
      at += 1;
      continue;
    }
    const colon = bytes.indexOf(0x3a, at);
    const end = colon + 1 + Number(bytes.toString('latin1', at, colon));
    cells.push(`${end - colon - 1}.${hash('md5', bytes.subarray(colon + 1, end), 'hex').slice(0, 8)}`);
    at = end;
  }
  return {
    print: hash('md5', bytes, 'hex'),
    cells: cells.join(' '),
    copies: 1,
    ...(version === undefined ? {} : { version }),
  };
}

/** Takes one more row of a key into the images. */
export function addImage(images: Images, key: string, image: RowImage): void {
  const known = images.get(key);
  if (known === undefined) images.set(key, image);
  else {
    // Two rows of one key would hide behind each other in a map.
    const print = known.print === image.print ? known.print : `${known.print} ${image.print}`;
    images.set(key, { print, cells: known.cells, copies: known.copies + 1 });
  }
}

export const sameImage = (a: RowImage, b: RowImage): boolean => a.print === b.print && a.copies === b.copies;

/** Places of the cells that differ. */
export function differingCells(a: RowImage, b: RowImage): number[] {
  const [left, right] = [a.cells.split(' '), b.cells.split(' ')];
  return left.map((cell, index) => (cell === right[index] ? -1 : index)).filter((index) => index >= 0);
}

/** The image as a report shows it: lengths alone. */
export function shownImage({ cells, copies }: RowImage): string {
  const lengths = cells.replaceAll(/(\d+)\.[0-9a-f]{8}/g, '$1');
  return copies === 1 ? lengths : `${copies} × ${lengths}`;
}
