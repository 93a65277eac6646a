// An OpenAI-compatible endpoint for one local GGUF model: node server.mjs <model.gguf> <port>
// It listens on 127.0.0.1 only and ends when its standard input ends, so it never outlives its parent.

import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { basename } from "node:path";
import { AnswerReader } from "./answer.mjs";
import { CONTEXT_TOKENS, Engine, RUNTIME_VERSION } from "./engine.mjs";
import { answerGrammar, schemaGrammar } from "./grammar.mjs";
import { chatPrompt, stablePrefix, toolPromptBody, toolPromptHead } from "./prompt.mjs";
import { sendJson, StreamedReply, WholeReply } from "./reply.mjs";
import { Snapshot } from "./snapshot.mjs";

const MODEL_ID = "qwen2.5-coder-1.5b-instruct";
const BODY_LIMIT_BYTES = 1 << 20;
const DEFAULT_MAX_TOKENS = 1024;
const QUEUE_LIMIT = 16;

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
server.once("error", giveUp);
server.listen(Number(port), "127.0.0.1", () => log({ event: "listening", port: server.address().port }));
process.stdin.resume().once("end", leave).once("error", leave);
process.once("SIGTERM", leave).once("SIGINT", leave);
load().catch(giveUp);

async function load() {
  const { size, mtimeMs } = await stat(modelPath);
  state.engine = await Engine.load(modelPath, (progress) => (state.progress = progress));
  log({ event: "loaded", seconds: seconds(performance.now()) });
  const prefix = state.engine.tokenize(stablePrefix());
  const identity = [basename(modelPath), size, mtimeMs, RUNTIME_VERSION, CONTEXT_TOKENS, prefix];
  const snapshot = new Snapshot(import.meta.dirname, identity, ({ message }) => log({ event: "snapshot", message }));
  const startedAt = performance.now();
  const tokens = await state.engine.warm(prefix, snapshot);
  state.warm = true;
  log({ event: "warm", tokens, seconds: seconds(performance.now() - startedAt) });
}

async function answer(request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  const route = `${request.method} ${pathname}`;
  if (route === "GET /healthz") return sendJson(response, state.engine ? 200 : 503, health());
  if (route === "GET /v1/models")
    return sendJson(response, 200, {
      object: "list",
      data: [{ id: MODEL_ID, object: "model", created: 0, owned_by: "local" }],
    });
  if (route === "POST /v1/chat/completions") return complete(await readBody(request), response);
  throw new RequestError(404, `There is no ${route} here.`, { code: "not_found" });
}

/** The process id tells a parent that it talks to its own child, not to whoever else holds the port. */
function health() {
  const status = state.engine
    ? { status: "ok", warm: state.warm }
    : { status: "loading", progress: Number(state.progress.toFixed(3)) };
  return { ...status, pid: process.pid };
}

async function complete(body, response) {
  if (!state.engine)
    throw new RequestError(503, "The model is still loading.", { code: "model_loading", type: "server_error" });
  if (state.waiting >= QUEUE_LIMIT)
    throw new RequestError(429, "Too many requests are waiting.", {
      code: "rate_limit_exceeded",
      type: "rate_limit_error",
    });
  const job = plan(body);
  const named = { ...body, model: typeof body.model === "string" ? body.model : MODEL_ID };
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const reply = body.stream ? new StreamedReply(response, named) : new WholeReply(response, named);
  const reader = new AnswerReader(job.lane === "tools", (delta) => reply.delta(delta));
  state.waiting += 1;
  try {
    const result = await state.engine.generate(job.tokens, {
      ...job,
      signal: gone.signal,
      onText: (text) => reader.push(text),
    });
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
  check(body, options);
  if (lane === "tools") {
    const head = state.engine.tokenize(toolPromptHead(body.messages, offered));
    options.headLength = head.length;
    options.tokens = [...head, ...state.engine.tokenize(toolPromptBody(body.messages))];
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
    throw new RequestError(
      400,
      `This model's context holds ${CONTEXT_TOKENS} tokens; the prompt has ${options.tokens.length}.`,
      { code: "context_length_exceeded", param: "messages" },
    );
  }
  return options;
}

const formatGrammar = (format) => {
  if (format?.type === "json_schema") return schemaGrammar(format.json_schema?.schema ?? {});
  return format?.type === "json_object" ? schemaGrammar({ type: "object" }) : undefined;
};

function check({ messages, tools, n, tool_choice: choice }, { maxTokens: limit, temperature }) {
  const refuse = (param, message) => {
    throw new RequestError(400, message, { param });
  };
  const roles = ["system", "developer", "user", "assistant", "tool"];
  const isText = (content) =>
    content == null ||
    typeof content === "string" ||
    (Array.isArray(content) && content.every((part) => part?.type === "text"));
  if (!Array.isArray(messages) || messages.length === 0)
    refuse("messages", "messages must be a list with at least one message.");
  messages.forEach((message, index) => {
    if (!roles.includes(message?.role)) refuse(`messages[${index}].role`, `role must be one of ${roles.join(", ")}.`);
    if (!isText(message.content))
      refuse(`messages[${index}].content`, "content must be text; this model reads nothing else.");
    if (message.tool_calls?.some((call) => !call?.function?.name))
      refuse(`messages[${index}].tool_calls`, "each tool call needs a function name.");
  });
  if (tools?.some((tool) => !tool?.function?.name)) refuse("tools", "each tool needs a function with a name.");
  if (choice?.function && !tools?.some((tool) => tool.function.name === choice.function.name))
    refuse("tool_choice", "tool_choice names a tool that is not offered.");
  if ((n ?? 1) !== 1) refuse("n", "n must be 1.");
  if (!(Number.isInteger(limit) && limit > 0))
    refuse("max_completion_tokens", "max_completion_tokens must be a whole number above 0.");
  if (!(temperature >= 0 && temperature <= 2)) refuse("temperature", "temperature must be between 0 and 2.");
}

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
    if (size > BODY_LIMIT_BYTES)
      throw new RequestError(413, `The body is larger than ${BODY_LIMIT_BYTES} bytes.`, { code: "request_too_large" });
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
  const body = known
    ? error.body
    : { error: { message: "The model failed; its log says why.", type: "server_error", param: null, code: null } };
  const status = known ? error.status : 500;
  const patience = status === 503 ? { "retry-after": "3" } : {}; // whoever is told how long to wait asks more often
  if (!response.headersSent) return sendJson(response, status, body, { connection: "close", ...patience });
  response.end(`data: ${JSON.stringify(body)}\n\n`);
}

function seconds(ms) {
  return Number((ms / 1000).toFixed(2));
}

function log(entry) {
  console.log(JSON.stringify({ at: new Date().toISOString(), ...entry }));
}

function giveUp(error) {
  log({ event: "failed", message: error.message });
  process.exit(1);
}

function leave() {
  process.exit(0);
}
