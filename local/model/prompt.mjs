// Chat messages -> prompt. A prompt is a list of strings and of {special} marks: only the marks may
// become control tokens, so nothing a user or a tool writes can end a turn.

import { json } from "./grammar.mjs";

const INSTRUCTION = `You are Qwen, a small language model that runs on the user's machine and has tools. Answer every message with one JSON object.
To use tools: {"calls": [{"name": "...", "arguments": {...}}]}. Calls that do not need each other go into one list.
To talk to the user: {"reply": "..."}.
Rules:
- Whatever a tool can compute or look up, get from the tool. Never calculate or guess it yourself.
- When the results answer the question, reply at once, with the numbers and names copied exactly from the results.
- Greetings, thanks, general knowledge and writing need no tool: reply.
- Reply in the language of the user.`;

// Tools that no caller offers: they teach the form, not an answer.
const EXAMPLES = [
  {
    tools: [
      tool("convert_length", "Converts a length to another unit.", { value: "number", from: "string", to: "string" }),
      tool("library_hours", "Opening hours of the library.", { day: "string" }),
    ],
    turns: [
      ["user", "Hi, who are you?"],
      [
        "reply",
        "I am Qwen, a small model on your machine. I can convert lengths and look up the opening hours of the library.",
      ],
      ["user", "How many feet are 30 metres, and when does the library open on Sunday?"],
      ["calls", ["convert_length", { value: 30, from: "m", to: "ft" }], ["library_hours", { day: "Sunday" }]],
      ["results", "98.425", '{"open": "10:00", "close": "16:00"}'],
      ["reply", "30 metres are 98.425 feet. On Sunday the library opens at 10:00."],
      ["user", "And when does it close?"],
      ["reply", "On Sunday it closes at 16:00."],
      ["user", "OK, and twice that length in inches?"],
      ["calls", ["convert_length", { value: 60, from: "m", to: "in" }]],
      ["results", "2362.2"],
      ["reply", "Twice that length, 60 metres, is 2362.2 inches."],
      ["user", "Great, thanks!"],
      ["reply", "You are welcome!"],
    ],
  },
  {
    tools: [
      tool("train_departure", "Next train between two stations.", { from: "string", to: "string" }),
      tool("sheet_formula", "Evaluates a spreadsheet formula.", { formula: "string" }),
      tool("ask_guest", "Asks the guest and waits for the answer.", { question: "string" }),
    ],
    turns: [
      ["user", "从北京到天津的下一班火车几点开？"],
      ["calls", ["train_departure", { from: "北京", to: "天津" }]],
      ["results", '{"train": "C2551", "departs": "14:07"}'],
      ["reply", "从北京到天津的下一班火车是 C2551，14:07 开。"],
      ["user", "How much is 12 percent of B2?"],
      ["calls", ["sheet_formula", { formula: "B2 * 12 / 100" }]],
      ["results", "54"],
      ["reply", "12 percent of B2 is 54."],
      ["user", "Find out what my guest would like to drink."],
      ["calls", ["ask_guest", { question: "What would you like to drink?" }]],
      ["results", "Tea, please."],
      ["reply", "Your guest would like tea."],
      ["user", "Who painted the Mona Lisa?"],
      ["reply", "Leonardo da Vinci painted the Mona Lisa."],
      ["user", "Write a rhyme about rain."],
      ["reply", "Rain on the roof and rain on the ground,\nsoft little drops with a silvery sound."],
    ],
  },
];

function tool(name, description, types) {
  const properties = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }]));
  return { name, description, parameters: { type: "object", properties, required: Object.keys(types) } };
}

/** The part of every tool prompt that never changes; the server reads it once, ahead of the first question. */
export const stablePrefix = () => [
  ...turn("system", INSTRUCTION),
  ...EXAMPLES.flatMap(({ tools, turns }) => [...turn("system", toolList(tools)), ...exampleTurns(turns)]),
];

/** What all conversations of an agent begin with. */
export function toolPromptHead(messages, tools) {
  const system = messages.filter(isSystem).map(textOf).join("\n\n");
  return [...stablePrefix(), ...turn("system", [toolList(tools), system].filter(Boolean).join("\n\n"))];
}

/** What follows the head. The answer to it follows `answerGrammar(tools)`. */
export function toolPromptBody(messages) {
  return [
    ...conversation(
      messages.filter((message) => !isSystem(message)),
      {
        calls: (calls) => json({ calls }),
        text: (text) => json({ reply: text }),
        results: (results) => `Results:\n${results.map(({ call, text }) => `${call} = ${text}`).join("\n")}`,
      },
    ),
    opening("assistant"),
  ];
}

/** The model's own chat template, for requests without tools. */
export function chatPrompt(messages) {
  const tagged = (tag, items) => items.map((item) => `<${tag}>\n${item}\n</${tag}>`).join("\n");
  return [
    ...(messages.some(isSystem) ? [] : turn("system", "You are a helpful assistant.")),
    ...conversation(messages, {
      calls: (calls) => tagged("tool_call", calls.map(json)),
      text: (text) => text,
      results: (results) =>
        tagged(
          "tool_response",
          results.map(({ text }) => text),
        ),
    }),
    opening("assistant"),
  ];
}

const isSystem = ({ role }) => role === "system" || role === "developer";

function conversation(messages, write) {
  const calls = new Map();
  const turns = [];
  for (const message of messages) {
    if (message.role === "tool") {
      const result = { call: calls.get(message.tool_call_id) ?? "tool", text: textOf(message) };
      if (turns.at(-1)?.results) turns.at(-1).results.push(result);
      else turns.push({ role: "user", results: [result] });
    } else if (message.tool_calls?.length > 0) {
      const made = message.tool_calls.map((call) => ({
        name: call.function.name,
        arguments: parsed(call.function.arguments),
      }));
      message.tool_calls.forEach((call, index) =>
        calls.set(call.id, `${made[index].name}(${json(made[index].arguments)})`),
      );
      turns.push({ role: "assistant", text: write.calls(made) });
    } else {
      const role = isSystem(message) ? "system" : message.role;
      turns.push({ role, text: role === "assistant" ? write.text(textOf(message)) : textOf(message) });
    }
  }
  return turns.flatMap(({ role, text, results }) => turn(role, text ?? write.results(results)));
}

function exampleTurns(turns) {
  let made = [];
  return turns.flatMap(([kind, ...items]) => {
    if (kind === "user") return turn("user", items[0]);
    if (kind === "reply") return turn("assistant", json({ reply: items[0] }));
    if (kind === "results")
      return turn("user", `Results:\n${items.map((text, index) => `${made[index]} = ${text}`).join("\n")}`);
    made = items.map(([name, args]) => `${name}(${json(args)})`);
    return turn("assistant", json({ calls: items.map(([name, args]) => ({ name, arguments: args })) }));
  });
}

const toolList = (tools) => `New conversation. The tools are now:\n${tools.map(describe).join("\n")}`;

function describe({ name, description, parameters }) {
  const required = parameters?.required ?? [];
  const fields = Object.entries(parameters?.properties ?? {}).map(([key, schema]) => {
    const type = schema.enum ? schema.enum.map(json).join(" | ") : (schema.type ?? "any");
    const note = schema.description ? ` (${schema.description})` : "";
    return `${key}${required.includes(key) ? "" : "?"}: ${type}${note}`;
  });
  return `- ${name}(${fields.join(", ")})${description ? `: ${description}` : ""}`;
}

const opening = (role) => ({ special: `<|im_start|>${role}\n` });
const turn = (role, text) => [opening(role), text, { special: "<|im_end|>\n" }];

const parsed = (text) => {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return { raw: text }; // a client may echo back arguments that another model cut off
  }
};

const textOf = ({ content }) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
