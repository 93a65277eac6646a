// The constrained JSON answer, read while it is written: reply text goes out at once, calls when complete.

import { randomUUID } from "node:crypto";

const REPLY = '{"reply": "';
const ESCAPES = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

export class AnswerReader {
  #raw = "";
  #position = REPLY.length;
  #closed = false;

  /** `emit` gets {content} or {call}. Without `constrained` the text passes through as it is. */
  constructor(constrained, emit) {
    this.constrained = constrained;
    this.emit = emit;
  }

  push(text) {
    if (!this.constrained) return this.emit({ content: text });
    this.#raw += text;
    if (this.#raw.startsWith(REPLY)) this.#emitReply();
  }

  /** Emits the calls, if the answer was a complete list of them, and returns them. */
  end() {
    if (!this.constrained || this.#raw.startsWith(REPLY)) return [];
    const calls = parseCalls(this.#raw);
    for (const call of calls) this.emit({ call });
    return calls;
  }

  #emitReply() {
    let out = "";
    while (!this.#closed) {
      const step = this.#next();
      if (step === null) break;
      out += step;
    }
    if (out) this.emit({ content: out });
  }

  /** The next decoded character, or null until more has been written. */
  #next() {
    const raw = this.#raw;
    const at = this.#position;
    if (at >= raw.length) return null;
    if (raw[at] === '"') {
      this.#closed = true;
      return "";
    }
    if (raw[at] !== "\\") return this.#take(1, raw[at]);
    const kind = raw[at + 1];
    if (kind === undefined) return null;
    if (kind !== "u") return this.#take(2, ESCAPES[kind] ?? kind);
    const unit = hex(raw, at);
    if (unit === null) return null;
    if (unit < 0xd800 || unit > 0xdfff) return this.#take(6, String.fromCharCode(unit));
    return this.#surrogate(unit, at);
  }

  #surrogate(unit, at) {
    const next = this.#raw.slice(at + 6, at + 8);
    if (unit > 0xdbff || !"\\u".startsWith(next)) return this.#take(6, "\ufffd");
    const low = hex(this.#raw, at + 6);
    if (low === null) return null;
    return low >= 0xdc00 && low <= 0xdfff ? this.#take(12, String.fromCharCode(unit, low)) : this.#take(6, "\ufffd");
  }

  #take(length, text) {
    this.#position += length;
    return text;
  }
}

const hex = (raw, at) => (raw.length < at + 6 ? null : parseInt(raw.slice(at + 2, at + 6), 16));

function parseCalls(raw) {
  try {
    return JSON.parse(raw).calls.map(({ name, arguments: args }) => ({
      id: `call_${randomUUID().replaceAll("-", "")}`,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    }));
  } catch {
    return []; // cut by max_tokens: half a call is no call
  }
}
