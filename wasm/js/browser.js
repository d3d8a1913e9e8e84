import init, { initSync } from "../pkg/shardwise.js";
import { face } from "./face.js";

/**
 * Loads the module, from beside this file unless told otherwise.
 * @param {URL | string | Request | Response | BufferSource | WebAssembly.Module} [from]
 */
export async function load(from) {
  if (from instanceof WebAssembly.Module || ArrayBuffer.isView(from) || from instanceof ArrayBuffer) {
    initSync({ module: from });
  } else {
    await init(from === undefined ? undefined : { module_or_path: from });
  }
  return face;
}
