// The two shapes of an OpenAI chat completion: one JSON object, or a stream of server-sent events.

import { randomUUID } from "node:crypto";

const KEEP_ALIVE_MS = 10_000; // reading a long prompt takes longer than some clients wait in silence

export class WholeReply {
  #message = { role: "assistant", content: null };

  constructor(response, body) {
    Object.assign(this, { response, base: envelope("chat.completion", body) });
  }

  delta({ content, call }) {
    if (content) this.#message.content = (this.#message.content ?? "") + content;
    if (call) (this.#message.tool_calls ??= []).push(call);
  }

  end(finish, result) {
    if (!this.#message.tool_calls) this.#message.content ??= "";
    sendJson(this.response, 200, {
      ...this.base,
      choices: [{ index: 0, message: this.#message, logprobs: null, finish_reason: finish }],
      usage: usage(result),
    });
  }

  close() {}
}

export class StreamedReply {
  #calls = 0;

  constructor(response, body) {
    Object.assign(this, {
      response,
      base: envelope("chat.completion.chunk", body),
      wantsUsage: body.stream_options?.include_usage,
    });
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    this.#choice({ role: "assistant", content: "" });
    this.beat = setInterval(() => response.write(": reading\n\n"), KEEP_ALIVE_MS);
  }

  delta({ content, call }) {
    if (content) this.#choice({ content });
    if (!call) return;
    const {
      id,
      type,
      function: { name, arguments: args },
    } = call;
    const index = this.#calls++;
    this.#choice({ tool_calls: [{ index, id, type, function: { name, arguments: "" } }] });
    this.#choice({ tool_calls: [{ index, function: { arguments: args } }] });
  }

  end(finish, result) {
    this.#choice({}, finish);
    if (this.wantsUsage) this.#send({ ...this.base, choices: [], usage: usage(result) });
    this.response.end("data: [DONE]\n\n");
  }

  close() {
    clearInterval(this.beat);
  }

  #choice(delta, finish = null) {
    this.#send({
      ...this.base,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(this.wantsUsage && { usage: null }),
    });
  }

  #send(chunk) {
    this.response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
}

const envelope = (object, { model }) => ({
  id: `chatcmpl-${randomUUID()}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model,
});

const usage = ({ promptTokens, cachedTokens, completionTokens }) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
});

export function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}
