import type { Reply, Verb, Verbs } from "../pkg/types.js";

export type * from "../pkg/types.js";

/** The planner, loaded. */
export interface Shardwise {
  /** Answers a request: `{ answer }`, or `{ error }` that names the field. */
  ask<V extends Verb>(verb: V, request: Verbs[V]["request"]): Reply<V>;
  /** The same on JSON text, byte for byte what every other face prints. */
  call(verb: string, request: string): string;
  /** The answer as text for a person; for a faulty request the error's message. */
  callText(verb: string, request: string): string;
  /** The version of the core. */
  version(): string;
}

/**
 * Loads the module once; later calls are cheap. `from` replaces the file beside the package, which is the
 * whole core: `shardwise/first-wasm` is the path of a smaller one that throws where it has no answer.
 */
export function load(
  from?: URL | string | Request | Response | BufferSource | WebAssembly.Module,
): Promise<Shardwise>;
