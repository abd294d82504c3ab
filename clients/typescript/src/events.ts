/** Events of a round, as they happen, over as many connections as that takes. */
import { BY_CODE, ConnectionLost, ProtocolError, SandboxError } from "./errors.js";
import { sleep, type Client } from "./http.js";
import { lines } from "./lines.js";
import { Broken, type Answer } from "./transport.js";
import { dataOut, type RoundEvent } from "./types.js";

const SILENCE = 30_000; // muxd says something every five seconds
const BLOCK_MAX = 4 << 20;
const BRIEF = 5000; // who is cut sooner, again and again, is told

/**
 * From the round's first event, or behind `lastEventId`, to its `exit`. A connection that is cut is made anew, and goes on behind the
 * last id: nothing comes twice, and no output is missing.
 */
export class RoundEvents implements AsyncIterable<RoundEvent> {
  readonly #client: Client;
  readonly #round: string;
  #answer: Answer | undefined;
  #over = false;
  lastEventId: string | undefined;

  constructor(client: Client, round: string, lastEventId?: string) {
    this.#client = client;
    this.#round = round;
    this.lastEventId = lastEventId;
  }

  async #open(): Promise<Answer | undefined> {
    const call = { query: { last_event_id: this.lastEventId }, accept: "text/event-stream", again: true };
    const answer = await this.#client.open("getRoundEvents", { id: this.#round }, call);
    this.#answer = answer;
    if (!this.stopped() && answer.status !== 204) return answer;
    answer.close();
    return undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RoundEvent> {
    let failures = 0;
    try {
      while (!this.#over) {
        const began = Date.now();
        const answer = await this.#open();
        if (!answer) return;
        try {
          for await (const event of eventsOf(answer, SILENCE)) {
            failures = 0;
            this.lastEventId = event.id ?? this.lastEventId;
            if (event.event === "cut") throw cut(event.data);
            yield event;
            if (event.event === "exit" || this.stopped()) return;
          }
          throw new Broken("it ended before the round did");
        } catch (e) {
          if (!(e instanceof Broken)) throw e;
          if (this.stopped()) return;
          failures = Date.now() - began < BRIEF ? failures + 1 : 0;
          if (failures > 8) throw new ConnectionLost(`the events of round ${this.#round} broke off behind ${this.lastEventId ?? "none"}: ${e.message}.`, { cause: e });
          await sleep(50 * failures);
        }
      }
    } finally {
      this.stop();
    }
  }

  private stopped(): boolean {
    return this.#over;
  }

  /** No more of them; the round goes on. */
  stop(): void {
    this.#over = true;
    this.#answer?.close();
  }
}

function cut(data: Record<string, unknown>): SandboxError {
  const code = String(data.code);
  return new (BY_CODE.get(code) ?? SandboxError)(String(data.message), { code });
}

/** Broken where nothing comes for so long. */
async function* eventsOf(answer: Answer, silence: number): AsyncGenerator<RoundEvent> {
  const lost = () => {
    throw new ProtocolError("an event of a round has no end");
  };
  let block: string[] = [];
  let length = 0;
  answer.within(silence);
  for await (const whole of lines(answer.pieces(), BLOCK_MAX, lost)) {
    const line = whole.endsWith("\r") ? whole.slice(0, -1) : whole;
    length += line.length;
    if (length > BLOCK_MAX) lost();
    if (line) {
      block.push(line);
      continue;
    }
    const event = eventOf(block);
    block = [];
    length = 0;
    if (event) yield event;
  }
}

/** As EventSource reads it; undefined for a comment. */
function eventOf(block: string[]): RoundEvent | undefined {
  let event = "message";
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block) {
    const [, field, value = ""] = /^([^:]*):? ?([^]*)$/.exec(line) ?? [];
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  if (!data.length) return undefined;
  let about: Record<string, unknown>;
  try {
    about = JSON.parse(data.join("\n")) as Record<string, unknown>;
  } catch (e) {
    throw new ProtocolError(`an event ${event} is no JSON`, { cause: e });
  }
  const output = event === "stdout" || event === "stderr" ? { output: dataOut(String(about.data), String(about.encoding)) } : {};
  return { event, data: about, ...(id === undefined ? {} : { id }), ...output };
}
