// What a sequence has read, kept on disk: the next start loads it in a moment instead of reading it again.

import { createHash } from "node:crypto";
import { chmod, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

const NAME = /^read-.*\.state$/;

export class Snapshot {
  #folder;
  #prefix;
  #onFailure;

  /**
   * `identity` is everything that the state depends on: the library may crash on the state of another model.
   * No failure is worth more than a line in the log, which `onFailure` writes: reading again is always possible.
   */
  constructor(folder, identity, onFailure) {
    this.#folder = folder;
    this.#prefix = `read-${digest(JSON.stringify(identity))}-`;
    this.#onFailure = onFailure;
  }

  /** Brings `sequence` to what was saved; false when there is nothing that fits. */
  async load(sequence) {
    try {
      const name = (await this.#saved()).find((name) => name.startsWith(this.#prefix));
      if (!name) return false;
      const path = join(this.#folder, name);
      if (name !== this.#name(await readFile(path))) throw new Error(`${name} is damaged`);
      await sequence.loadStateFromFile(path, { acceptRisk: true });
      return true;
    } catch (error) {
      this.#onFailure(error);
      await sequence.clearHistory();
      return false;
    }
  }

  /** Takes the place of everything saved before; the file appears only when it is whole. */
  async save(sequence) {
    const unfinished = join(this.#folder, `read-${process.pid}.unfinished.state`);
    try {
      const old = await this.#saved();
      await sequence.saveStateToFile(unfinished);
      await chmod(unfinished, 0o600); // it holds the agent's instructions
      const name = this.#name(await readFile(unfinished));
      await rename(unfinished, join(this.#folder, name));
      for (const other of old) if (other !== name) await rm(join(this.#folder, other), { force: true });
    } catch (error) {
      this.#onFailure(error);
      await rm(unfinished, { force: true }).catch(() => {});
    }
  }

  async #saved() {
    return (await readdir(this.#folder)).filter((name) => NAME.test(name));
  }

  #name(content) {
    return `${this.#prefix}${digest(content)}.state`;
  }
}

const digest = (data) => createHash("sha256").update(data).digest("hex").slice(0, 16);
