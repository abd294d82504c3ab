/** Bytes of a stream in, as they come; whole lines out. */

/**
 * Lines without their ends. Of one that is longer than `most` nothing is kept, and `lost` is called as soon as it is: what has no end
 * fills nothing. Only what is new is looked through, so that a long line costs no more than many short ones.
 */
export async function* lines(pieces: AsyncIterable<Uint8Array>, most: number, lost: () => void): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let parts: string[] = [];
  let length = 0;
  const keep = (text: string) => {
    if (length > most) return;
    length += text.length;
    if (length <= most) {
      if (text) parts.push(text);
      return;
    }
    parts = [];
    lost();
  };
  for await (const piece of pieces) {
    const texts = decoder.decode(piece, { stream: true }).split("\n");
    const rest = texts.pop() ?? "";
    for (const text of texts) {
      keep(text);
      const line = length <= most ? parts.join("") : undefined;
      parts = [];
      length = 0;
      if (line !== undefined) yield line;
    }
    keep(rest);
  }
}
