// The model in memory: one generation at a time, two cached prefixes (with tools, without).

import { availableParallelism } from "node:os";
import { getLlama, getModuleVersion, LlamaCompletion } from "node-llama-cpp";

export const CONTEXT_TOKENS = 8192;
export const RUNTIME_VERSION = await getModuleVersion();
const READ_STEP_TOKENS = 256; // smaller steps read slower, larger ones only abort later
const SAVED_TOKENS_LIMIT = 4096; // 120 MB on disk with the embedded model

export class Engine {
  #llama;
  #model;
  #lanes;
  #tail = Promise.resolve();
  #grammars = new Map();
  #snapshot = null; // until it holds what the first tool prompt of this start begins with

  /** Loads `path`; `onProgress` gets 0..1. Needs a ChatML model with its weights in one GGUF file. */
  static async load(path, onProgress) {
    // A GPU only where it comes with the platform's one binary; nothing is ever compiled or downloaded here.
    const gpu = process.platform === "darwin" ? "auto" : false;
    const llama = await getLlama({ gpu, build: "never", skipDownload: true, logLevel: "error" });
    // Mapped weights would be in memory twice: once as file pages, once rearranged for this processor.
    const model = await llama.loadModel({ modelPath: path, useMmap: false, onLoadProgress: onProgress });
    const template = model.fileInfo.metadata?.tokenizer?.chat_template ?? "";
    if (!String(template).includes("<|im_start|>")) {
      throw new Error(`${path} is not a ChatML model (Qwen and its kin are)`);
    }
    const context = await model.createContext({
      contextSize: CONTEXT_TOKENS,
      sequences: 2,
      threads: availableParallelism(),
    });
    const engine = new Engine();
    engine.#llama = llama;
    engine.#model = model;
    engine.#lanes = { tools: lane(context), chat: lane(context) };
    return engine;
  }

  tokenize(prompt) {
    return prompt.flatMap((part) =>
      typeof part === "string" ? this.#model.tokenize(part, false) : this.#model.tokenize(part.special, true),
    );
  }

  /**
   * Brings `tokens`, the beginning of every tool prompt, into their cache: from `snapshot`, which may hold more, or by
   * reading. Returns how many tokens are there.
   */
  warm(tokens, snapshot) {
    const { sequence } = this.#lanes.tools;
    this.#snapshot = snapshot;
    return this.#alone(undefined, async () => {
      if (!(await snapshot.load(sequence))) {
        await read(sequence, tokens);
        await snapshot.save(sequence);
      }
      return sequence.nextTokenIndex;
    });
  }

  /**
   * Writes on from `tokens`, the first `headLength` of which are worth keeping; text goes to `onText` as it comes.
   * Returns {finish: "stop" | "length", promptTokens, cachedTokens, completionTokens, firstTokenMs, totalMs}; throws when aborted.
   */
  generate(tokens, { lane, headLength, grammar, maxTokens, temperature, topP, seed, stop, signal, onText }) {
    return this.#alone(signal, async () => {
      const { sequence, completion } = this.#lanes[lane];
      const cachedTokens = Math.min(sequence.compareContextTokens(tokens).firstDifferentIndex, tokens.length - 1);
      const outputBefore = sequence.tokenMeter.usedOutputTokens;
      const startedAt = performance.now();
      let firstTokenMs = null;
      if (lane === "tools") await this.#readHead(sequence, tokens.slice(0, headLength), signal);
      await read(sequence, tokens.slice(0, -1), signal);
      const { metadata } = await completion.generateCompletionWithMeta(tokens.slice(), {
        grammar: grammar && (await this.#grammar(grammar)),
        maxTokens: Math.min(maxTokens, CONTEXT_TOKENS - tokens.length),
        temperature,
        topP,
        seed,
        repeatPenalty: false, // the default one keeps a small model from copying a number it has just read
        customStopTriggers: stop,
        disableContextShift: true,
        contextShiftSize: 1,
        signal,
        onTextChunk: (text) => {
          firstTokenMs ??= performance.now() - startedAt;
          onText(text);
        },
      });
      return {
        finish: metadata.stopReason === "maxTokens" ? "length" : "stop",
        promptTokens: tokens.length,
        cachedTokens,
        completionTokens: sequence.tokenMeter.usedOutputTokens - outputBefore,
        firstTokenMs: firstTokenMs ?? performance.now() - startedAt,
        totalMs: performance.now() - startedAt,
      };
    });
  }

  /** Reads what the next start will want to find read, and saves it while nothing said in a conversation is in it. */
  async #readHead(sequence, head, signal) {
    if (!this.#snapshot || head.length > SAVED_TOKENS_LIMIT) return;
    if (sequence.compareContextTokens(head).firstDifferentIndex < head.length) {
      await read(sequence, head, signal);
      await this.#snapshot.save(sequence);
    }
    this.#snapshot = null; // once a start: prompts that differ each time must not write each time
  }

  #alone(signal, work) {
    const run = this.#tail.then(() => {
      signal?.throwIfAborted();
      return work();
    });
    this.#tail = run.catch(() => {});
    return run;
  }

  async #grammar(text) {
    if (!this.#grammars.has(text)) {
      if (this.#grammars.size >= 16) this.#grammars.clear();
      this.#grammars.set(text, await this.#llama.createGrammar({ grammar: text }));
    }
    return this.#grammars.get(text);
  }
}

/** Brings the sequence to `tokens`, keeping what it has already read; in steps, since one step cannot be aborted. */
async function read(sequence, tokens, signal) {
  await sequence.adaptStateToTokens(tokens, false);
  while (sequence.nextTokenIndex < tokens.length) {
    signal?.throwIfAborted();
    await sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(sequence.nextTokenIndex).slice(0, READ_STEP_TOKENS));
  }
}

function lane(context) {
  const sequence = context.getSequence();
  return { sequence, completion: new LlamaCompletion({ contextSequence: sequence }) };
}
