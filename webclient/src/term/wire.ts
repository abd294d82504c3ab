// The messages of a terminal's WebSocket: docs/protocol.md, "The browser door". Little-endian.

export const subprotocol = "muxd.v1";
export const inputMax = 16 * 1024;
/** How far INPUT may run ahead of TAKEN: so little never stops the reading there, with what is behind it. */
export const inputAhead = 96 * 1024;
export const firstWindow = 128 * 1024;

export interface Opened {
  session: string;
  agent: string;
  kind: string;
  principal: string;
  role: "driver" | "observer";
  offset: number;
  cols: number;
  rows: number;
  grant: { id: string; principal: string; reason: string; expires_at: string; expires_in_ms: number };
}
export interface Notice {
  text: string;
  expires_in_ms: number;
  /** False: of the screen that follows. */
  exact?: boolean;
  /** What the last one said is over. */
  over?: boolean;
}
export interface Exit {
  exit: { cause: string; code: number; signal: string; message: string };
  stdout: { total_bytes: number };
  duration_ms: number;
}
export interface Refusal {
  code: string;
  message: string;
  hint: string;
  status: number;
}

export type ServerMessage =
  | { type: "output"; stream: 1 | 2; offset: number; data: Uint8Array }
  | { type: "opened"; opened: Opened }
  | { type: "notice"; notice: Notice }
  | { type: "skipped"; stream: number; from: number; to: number }
  | { type: "exit"; exit: Exit }
  | { type: "error"; error: Refusal }
  | { type: "pong"; data: Uint8Array }
  | { type: "screen"; offset: number; cols: number; rows: number; data: Uint8Array }
  | { type: "resized"; cols: number; rows: number }
  | { type: "taken"; total: number }
  | { type: "unknown" };

const text = new TextDecoder();
const json = (b: Uint8Array): unknown => JSON.parse(text.decode(b)) as unknown;
/** Offsets stay far below 2^53: that is 9 petabytes. */
const u64 = (v: DataView, at: number): number => v.getUint32(at, true) + v.getUint32(at + 4, true) * 2 ** 32;

/** Throws where a message is shorter than its fields. */
export function parse(buffer: ArrayBuffer): ServerMessage {
  const v = new DataView(buffer);
  const rest = new Uint8Array(buffer, 1);
  switch (v.getUint8(0)) {
    case 0x01:
    case 0x02:
      return { type: "output", stream: v.getUint8(0) === 1 ? 1 : 2, offset: u64(v, 1), data: new Uint8Array(buffer, 9) };
    case 0x10:
      return { type: "opened", opened: json(rest) as Opened };
    case 0x11:
      return { type: "notice", notice: json(rest) as Notice };
    case 0x12:
      return { type: "skipped", stream: v.getUint8(1), from: u64(v, 2), to: u64(v, 10) };
    case 0x13:
      return { type: "exit", exit: json(rest) as Exit };
    case 0x14:
      return { type: "error", error: json(rest) as Refusal };
    case 0x15:
      return { type: "pong", data: rest };
    case 0x16:
      return { type: "screen", offset: u64(v, 1), cols: v.getUint16(9, true), rows: v.getUint16(11, true), data: new Uint8Array(buffer, 13) };
    case 0x17:
      return { type: "resized", cols: v.getUint16(1, true), rows: v.getUint16(3, true) };
    case 0x18:
      return { type: "taken", total: u64(v, 1) };
    default:
      return { type: "unknown" };
  }
}

function message(type: number, length: number): { bytes: Uint8Array<ArrayBuffer>; view: DataView } {
  const bytes = new Uint8Array(length + 1);
  bytes[0] = type;
  return { bytes, view: new DataView(bytes.buffer) };
}

export function input(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const m = message(0x00, data.length);
  m.bytes.set(data, 1);
  return m.bytes;
}

export function resize(cols: number, rows: number, xpixel: number, ypixel: number): Uint8Array<ArrayBuffer> {
  const m = message(0x20, 8);
  [cols, rows, xpixel, ypixel].forEach((n, i) => {
    m.view.setUint16(1 + 2 * i, n, true);
  });
  return m.bytes;
}

export function windowTo(stream: number, offset: number): Uint8Array<ArrayBuffer> {
  const m = message(0x21, 9);
  m.view.setUint8(1, stream);
  m.view.setUint32(2, offset % 2 ** 32, true);
  m.view.setUint32(6, Math.floor(offset / 2 ** 32), true);
  return m.bytes;
}

export function ping(): Uint8Array<ArrayBuffer> {
  return message(0x22, 0).bytes;
}
