// Events of a recording, as /v1/recordings/{id}/events sends them (docs/recording-format.md, "Events").

export const OPEN = 1, DATA = 2, RESIZE = 3, EVENT = 4, EXIT = 5, GAP = 64, MISSING = 65;
export const INPUT = 0, OUTPUT = 1, STDERR = 2;

export interface RecordedEvent {
  type: number;
  stream: number;
  flags: number;
  seq: bigint;
  /** Boot clock. */
  ns: bigint;
  offset: bigint;
  payload: Uint8Array;
}

export class BadRecording extends Error {}

/** Whole events only: a page is never cut inside one. */
export function decode(bytes: Uint8Array): RecordedEvent[] {
  const list: RecordedEvent[] = [];
  let at = 0;

  function number(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new BadRecording("An event of this recording is cut short.");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new BadRecording("An event of this recording has a number that is too large.");
  }
  const signed = (v: bigint): bigint => (v & 1n ? -((v + 1n) >> 1n) : v >> 1n);

  while (at < bytes.length) {
    const type = bytes[at] ?? 0;
    const stream = bytes[at + 1] ?? 0;
    at += 2;
    const flags = Number(number());
    const size = Number(number());
    const seq = signed(number());
    const ns = signed(number());
    const offset = signed(number());
    if (at + size > bytes.length) throw new BadRecording("An event of this recording is cut short.");
    list.push({ type, stream, flags, seq, ns, offset, payload: bytes.subarray(at, at + size) });
    at += size;
  }
  return list;
}

/** Is it seen: output, another size, a gap, the end? Keys, clocks and who comes and goes are not. */
export function isSeen(e: RecordedEvent): boolean {
  return (e.type === DATA && e.stream !== INPUT) || e.type === RESIZE || e.type === GAP || e.type === MISSING || e.type === EXIT;
}

export function u16(p: Uint8Array, at: number): number {
  return (p[at] ?? 0) | ((p[at + 1] ?? 0) << 8);
}

/** Whose input follows; null: this is no such event. */
export function typist(e: RecordedEvent): string | null {
  if (e.type !== EVENT) return null;
  try {
    const o: unknown = JSON.parse(new TextDecoder().decode(e.payload));
    if (typeof o !== "object" || o === null || !("event" in o) || o.event !== "input") return null;
    return "principal" in o && typeof o.principal === "string" ? o.principal : "";
  } catch {
    return null; // no JSON: no event that this page knows
  }
}

/** What truncation left out, or the journal lacks. */
export function leftOut(e: RecordedEvent): number {
  if (e.type !== GAP && e.type !== MISSING) return 0;
  return Number(new DataView(e.payload.buffer, e.payload.byteOffset).getBigUint64(0, true));
}
