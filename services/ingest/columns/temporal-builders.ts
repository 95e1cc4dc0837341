import type { Cell } from '../../../contracts/engine/gate.ts';
import { Int32Builder, Int64Builder } from './number-builders.ts';
import { bigMicros, dateTextToDays, parseTimestampText, safeMicros } from '../../stream/temporal-text.ts';

/** date: `YYYY-MM-DD` text → days since 1970-01-01. */
export class DateBuilder extends Int32Builder {
  constructor() {
    super(-2147483648, 2147483647);
  }
  override append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'string') return false;
    const days = dateTextToDays(cell);
    if (Number.isNaN(days)) return false;
    this.push(days);
    return true;
  }
}

/** timestamp (zoned) and timestamp_ntz: text → microseconds since 1970-01-01T00:00:00. */
export class TimestampBuilder extends Int64Builder {
  private readonly zoned: boolean;
  constructor(zoned: boolean) {
    super();
    this.zoned = zoned;
  }
  override append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'string' || !parseTimestampText(cell, this.zoned)) return false;
    const micros = safeMicros();
    if (!Number.isNaN(micros)) {
      this.pushSafe(micros);
      return true;
    }
    const big = bigMicros();
    if (big === null) return false;
    this.pushBig(big);
    return true;
  }
}
