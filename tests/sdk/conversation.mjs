// One conversation as Node's official client has it: a question of the agent, and the person's answer to it.
// Prints what each side of it came to. Arguments: base URL, session, "whole", "chunks", "helper" or "responses".

import OpenAI from "openai";

const [baseURL, session, way] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0, timeout: 60_000 });

async function say(content) {
  const request = { model: "assistant", messages: [{ role: "user", content }], session_id: session };
  if (way === "whole") {
    const reply = await client.chat.completions.create(request);
    return [reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens];
  }
  if (way === "helper") {
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const reply = await stream.finalChatCompletion();
    return [reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens];
  }
  let text = "";
  let reason = null;
  let tokens = null;
  const options = { ...request, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(options)) {
    text += chunk.choices[0]?.delta?.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
    tokens = chunk.usage?.total_tokens ?? tokens;
  }
  return [text, reason, tokens];
}

async function respond() {
  const first = await client.responses.create({ model: "assistant", input: "Paint 17*23 walls" });
  const again = { model: "assistant", input: "blue", previous_response_id: first.id };
  const second = await client.responses.stream(again).finalResponse();
  return [
    [first.output_text, first.status, first.usage.total_tokens],
    [second.output_text, second.status, second.usage.total_tokens],
  ];
}

const said = way === "responses" ? await respond() : [await say("Paint 17*23 walls"), await say("blue")];
console.log(JSON.stringify(said));
