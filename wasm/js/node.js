import { readFile } from "node:fs/promises";
import { initSync } from "../pkg/shardwise.js";
import { face } from "./face.js";

/** Loads the module, from beside this file unless its bytes are given. */
export async function load(from) {
  initSync({ module: from ?? (await readFile(new URL("../pkg/shardwise_bg.wasm", import.meta.url))) });
  return face;
}
