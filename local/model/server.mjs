// An OpenAI-compatible endpoint for one local GGUF model: node server.mjs <model.gguf> <port>
// It listens on 127.0.0.1 only and ends when its standard input ends, so it never outlives its parent.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { CONTEXT_TOKENS, Engine } from "./engine.mjs";
import { answerGrammar, schemaGrammar } from "./grammar.mjs";
import { chatPrompt, stablePrefix, toolPrompt } from "./prompt.mjs";
import { AnswerReader } from "./answer.mjs";

const MODEL_ID = "qwen2.5-coder-1.5b-instruct";
const BODY_LIMIT_BYTES = 1 << 20;
const DEFAULT_MAX_TOKENS = 1024;
const QUEUE_LIMIT = 16;
const KEEP_ALIVE_MS = 10_000;

const [modelPath, port] = process.argv.slice(2);
const state = { engine: null, progress: 0, waiting: 0, warm: false };

class RequestError extends Error {
  constructor(status, message, { code = null, param = null, type = "invalid_request_error" } = {}) {
    super(message);
    Object.assign(this, { status, body: { error: { message, type, param, code } } });
  }
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => fail(response, error));
});
server.listen(Number(port), "127.0.0.1", () => log({ event: "listening", port: server.address().port }));
process.stdin.resume().once("end", leave).once("error", leave);
process.once("SIGTERM", leave).once("SIGINT", leave);

try {
  state.engine = await Engine.load(modelPath, (progress) => (state.progress = progress));
  log({ event: "loaded", seconds: seconds(performance.now()) });
  const startedAt = performance.now();
  await state.engine.warm(state.engine.tokenize(stablePrefix()));
  state.warm = true;
  log({ event: "warm", seconds: seconds(performance.now() - startedAt), tokens: state.engine.tokenize(stablePrefix()).length });
} catch (error) {
  log({ event: "failed", message: error.message });
  process.exit(1);
}

async function answer(request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  const route = `${request.method} ${pathname}`;
  if (route === "GET /healthz") return sendJson(response, state.engine ? 200 : 503, health());
  if (route === "GET /v1/models") return sendJson(response, 200, { object: "list", data: [{ id: MODEL_ID, object: "model", created: 0, owned_by: "local" }] });
  if (route === "POST /v1/chat/completions") return complete(await readBody(request), response);
  throw new RequestError(404, `There is no ${route} here.`, { code: "not_found" });
}

const health = () =>
  state.engine ? { status: "ok", model: MODEL_ID, warm: state.warm } : { status: "loading", progress: Number(state.progress.toFixed(3)) };

async function complete(body, response) {
  if (!state.engine) throw new RequestError(503, "The model is still loading.", { code: "model_loading", type: "server_error" });
  if (state.waiting >= QUEUE_LIMIT) throw new RequestError(429, "Too many requests are waiting.", { code: "rate_limit_exceeded", type: "rate_limit_error" });
  const job = plan(body);
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const reply = body.stream ? new StreamedReply(response, body) : new WholeReply(response, body);
  const reader = new AnswerReader(job.lane === "tools", (delta) => reply.delta(delta));
  state.waiting += 1;
  try {
    const result = await state.engine.generate(job.tokens, { ...job, signal: gone.signal, onText: (text) => reader.push(text) });
    const calls = reader.end();
    reply.end(calls.length > 0 ? "tool_calls" : result.finish, result);
    log({ event: "completion", lane: job.lane, calls: calls.length, ...figures(result) });
  } catch (error) {
    if (!gone.signal.aborted) throw error;
    log({ event: "aborted" });
  } finally {
    state.waiting -= 1;
    reply.close();
  }
}

/** The request as work for the engine. */
function plan(body) {
  check(body);
  const choice = body.tool_choice ?? "auto";
  const offered = (body.tools ?? []).map((tool) => tool.function);
  const chosen = choice?.function ? offered.filter(({ name }) => name === choice.function.name) : offered;
  const lane = offered.length > 0 && choice !== "none" ? "tools" : "chat";
  const stop = [body.stop ?? []].flat();
  const options = {
    lane,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_MAX_TOKENS,
    temperature: body.temperature ?? 0,
    topP: body.top_p ?? undefined,
    seed: body.seed ?? undefined,
  };
  if (lane === "tools") {
    options.tokens = state.engine.tokenize(toolPrompt(body.messages, offered));
    options.grammar = answerGrammar(chosen, {
      mustCall: choice === "required" || Boolean(choice?.function),
      maxCalls: body.parallel_tool_calls === false ? 1 : 4,
    });
    options.stop = stop.map((text) => JSON.stringify(text).slice(1, -1)); // the reply is written as a JSON string
  } else {
    options.tokens = state.engine.tokenize(chatPrompt(body.messages));
    options.grammar = formatGrammar(body.response_format);
    options.stop = stop;
  }
  if (options.tokens.length >= CONTEXT_TOKENS) {
    throw new RequestError(400, `This model's context holds ${CONTEXT_TOKENS} tokens; the prompt has ${options.tokens.length}.`, { code: "context_length_exceeded", param: "messages" });
  }
  return options;
}

const formatGrammar = (format) => {
  if (format?.type === "json_schema") return schemaGrammar(format.json_schema?.schema ?? {});
  return format?.type === "json_object" ? schemaGrammar({ type: "object" }) : undefined;
};

function check({ messages, tools, n, tool_choice: choice }) {
  const refuse = (param, message) => {
    throw new RequestError(400, message, { param });
  };
  const roles = ["system", "developer", "user", "assistant", "tool"];
  const isText = (content) => content == null || typeof content === "string" || (Array.isArray(content) && content.every((part) => part?.type === "text"));
  if (!Array.isArray(messages) || messages.length === 0) refuse("messages", "messages must be a list with at least one message.");
  messages.forEach((message, index) => {
    if (!roles.includes(message?.role)) refuse(`messages[${index}].role`, `role must be one of ${roles.join(", ")}.`);
    if (!isText(message.content)) refuse(`messages[${index}].content`, "content must be text; this model reads nothing else.");
    if (message.tool_calls?.some((call) => !call?.function?.name)) refuse(`messages[${index}].tool_calls`, "each tool call needs a function name.");
  });
  if (tools?.some((tool) => !tool?.function?.name)) refuse("tools", "each tool needs a function with a name.");
  if (choice?.function && !tools?.some((tool) => tool.function.name === choice.function.name)) refuse("tool_choice", "tool_choice names a tool that is not offered.");
  if ((n ?? 1) !== 1) refuse("n", "n must be 1.");
}

class WholeReply {
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
    sendJson(this.response, 200, { ...this.base, choices: [{ index: 0, message: this.#message, logprobs: null, finish_reason: finish }], usage: usage(result) });
  }

  close() {}
}

class StreamedReply {
  #calls = 0;

  constructor(response, body) {
    Object.assign(this, { response, base: envelope("chat.completion.chunk", body), wantsUsage: body.stream_options?.include_usage });
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    this.#choice({ role: "assistant", content: "" });
    this.beat = setInterval(() => response.write(": reading\n\n"), KEEP_ALIVE_MS);
  }

  delta({ content, call }) {
    if (content) this.#choice({ content });
    if (!call) return;
    const { id, type, function: { name, arguments: args } } = call;
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
    this.#send({ ...this.base, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }], ...(this.wantsUsage && { usage: null }) });
  }

  #send(chunk) {
    this.response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
}

const envelope = (object, { model }) => ({
  id: `chatcmpl-${randomUUID()}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model: typeof model === "string" ? model : MODEL_ID,
});

const usage = ({ promptTokens, cachedTokens, completionTokens }) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
});

const figures = ({ promptTokens, cachedTokens, completionTokens, firstTokenMs, totalMs }) => ({
  promptTokens,
  cachedTokens,
  completionTokens,
  firstTokenSeconds: seconds(firstTokenMs),
  tokensPerSecond: Number(((completionTokens - 1) / ((totalMs - firstTokenMs) / 1000)).toFixed(1)),
});

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_LIMIT_BYTES) throw new RequestError(413, `The body is larger than ${BODY_LIMIT_BYTES} bytes.`, { code: "request_too_large" });
    chunks.push(chunk);
  }
  try {
    return Object(JSON.parse(Buffer.concat(chunks).toString("utf8")));
  } catch {
    throw new RequestError(400, "The body is not JSON.");
  }
}

function fail(response, error) {
  const known = error instanceof RequestError;
  if (!known) log({ event: "error", message: error.message });
  const body = known ? error.body : { error: { message: "The model failed; its log says why.", type: "server_error", param: null, code: null } };
  if (!response.headersSent) return sendJson(response, known ? error.status : 500, body, { connection: "close" });
  response.end(`data: ${JSON.stringify(body)}\n\n`);
}

function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function seconds(ms) {
  return Number((ms / 1000).toFixed(2));
}

function log(entry) {
  console.log(JSON.stringify({ at: new Date().toISOString(), ...entry }));
}

function leave() {
  process.exit(0);
}
