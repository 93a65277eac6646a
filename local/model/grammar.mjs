// JSON schema -> GBNF, so that what the model writes always parses and always names an offered tool.

const COMMON = String.raw`
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/nrt] | "u" [0-9a-fA-F]{4})
integer ::= "-"? ("0" | [1-9] [0-9]{0,14})
number ::= integer ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?
boolean ::= "true" | "false"
null ::= "null"
value ::= string | number | boolean | null | array | object
array ::= "[" (value (", " value)*)? "]"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
`;

/** The grammar of one answer: a list of calls to `tools`, or (unless `mustCall`) a reply text. */
export function answerGrammar(tools, { mustCall = false, maxCalls = 4 } = {}) {
  const rules = new Rules();
  const calls = tools.map(({ name, parameters }) => {
    const args = rules.of(parameters ?? { type: "object" }, parameters);
    return `"{" ${literal('"name": ' + json(name))} ", " ${literal('"arguments": ')} ${args} "}"`;
  });
  rules.add("call", calls.join(" | "));
  const list = `${literal('"calls": [')} call (", " call){0,${maxCalls - 1}} "]"`;
  const reply = `${literal('"reply": ')} string`;
  return rules.text(mustCall ? `"{" ${list} "}"` : `"{" (${list} | ${reply}) "}"`);
}

/** The grammar of one JSON value that follows `schema`. */
export function schemaGrammar(schema) {
  const rules = new Rules();
  return rules.text(rules.of(schema, schema));
}

/** JSON with one space after ":" and ",", the only spelling the grammars accept. */
export function json(value) {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}: ${json(item)}`)
    .join(", ")}}`;
}

const literal = (text) => JSON.stringify(text);

class Rules {
  #named = new Map();
  #lines = [];

  add(name, body) {
    this.#lines.push(`${name} ::= ${body}`);
    return name;
  }

  text(root) {
    return [`root ::= ${root}`, ...this.#lines, COMMON].join("\n");
  }

  /** A rule name or an inline expression for `schema`; unknown keywords widen, they never fail. */
  of(schema, root) {
    if (schema === true || schema == null || typeof schema !== "object") return "value";
    if (schema.$ref !== undefined) return this.#ref(schema.$ref, root);
    if ("const" in schema) return literal(json(schema.const));
    if (Array.isArray(schema.enum)) return either(schema.enum.map((item) => literal(json(item))));
    const options = schema.anyOf ?? schema.oneOf;
    if (options) return either(options.map((option) => this.of(option, root)));
    if (schema.allOf) return this.of(mergeAll(schema), root);
    if (Array.isArray(schema.type)) return either(schema.type.map((type) => this.of({ ...schema, type }, root)));
    if (schema.type === "object" || schema.properties) return this.#object(schema, root);
    if (schema.type === "array") return this.#array(schema, root);
    return ["string", "integer", "number", "boolean", "null"].includes(schema.type) ? schema.type : "value";
  }

  #ref(ref, root) {
    if (this.#named.has(ref)) return this.#named.get(ref);
    const name = `ref${this.#named.size}`;
    this.#named.set(ref, name); // before the descent: schemas may refer to themselves
    const target = String(ref)
      .replace(/^#\/?/, "")
      .split("/")
      .filter(Boolean)
      .reduce((node, key) => node?.[key], root);
    return this.add(name, this.of(target, root));
  }

  #array({ items, minItems = 0, maxItems }, root) {
    const item = this.of(items, root);
    if (maxItems === 0) return '"[]"';
    const more = `(", " ${item}){${Math.max(0, minItems - 1)},${maxItems ? maxItems - 1 : ""}}`;
    return minItems > 0 ? `"[" ${item} ${more} "]"` : `"[" (${item} ${more})? "]"`;
  }

  #object({ properties, required = [] }, root) {
    if (!properties) return "object";
    const keys = Object.keys(properties);
    const pair = (key) => `${literal(json(key) + ": ")} ${this.of(properties[key], root)}`;
    const must = keys.filter((key) => required.includes(key)).map(pair);
    const may = keys.filter((key) => !required.includes(key)).map(pair);
    const tail = (rest) => rest.map((item) => `(", " ${item})?`).join(" ");
    if (must.length > 0) return `"{" ${must.join(' ", " ')} ${tail(may)} "}"`;
    if (may.length === 0) return '"{}"';
    return `"{" (${may.map((item, index) => `${item} ${tail(may.slice(index + 1))}`).join(" | ")})? "}"`;
  }
}

const either = (items) => `(${items.join(" | ")})`;

const mergeAll = ({ allOf, ...rest }) =>
  allOf.reduce(
    (merged, part) => ({
      ...merged,
      ...part,
      properties: { ...merged.properties, ...part.properties },
      required: [...(merged.required ?? []), ...(part.required ?? [])],
    }),
    rest,
  );
