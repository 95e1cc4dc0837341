/**
 * Much text on its way out, in pieces of a megabyte or so. Each waits until the one before was taken: a pipe that is read slowly
 * holds the command back, where it would otherwise fill memory until the write failed (ENOBUFS).
 */
export type Write = (text: string) => void | Promise<void>;

export interface TextPieces {
  /** Null: there is room for more. Else to be awaited before the next. */
  add(text: string): Promise<void> | null;
  end(): Promise<void>;
}

const PIECE_LENGTH = 1024 * 1024;

export function createTextPieces(write: Write): TextPieces {
  let piece = '';
  const flush = async (): Promise<void> => {
    const text = piece;
    piece = '';
    if (text !== '') await write(text);
  };
  return {
    add(text) {
      piece += text;
      return piece.length < PIECE_LENGTH ? null : flush();
    },
    end: flush,
  };
}
