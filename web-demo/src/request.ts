/** From what the person said to the requests of the core. */

import { toJson } from "./schema";
import type { State } from "./state";
import { isUnder } from "./state";

export type Verb = "plan" | "estimate" | "compare" | "catalog";

/** Roots that one verb has and the other lacks. */
const FOREIGN: Partial<Record<Verb, string[]>> = {
  plan: ["layout"],
  estimate: ["search", "alternatives", "why_not", "current"],
};

/** A fault found before the core was asked, in the core's form. */
export interface Fault {
  field: string;
  message: string;
}

/** A longer config is not one: the largest published is under 100 kB. */
export const LONGEST_CONFIG = 256_000;

export type Json = { [key: string]: unknown };

/** The request as an object and as text, or the fault that keeps it from being one. */
export function request(verb: Verb, state: State): { request: Json; text: string } | { fault: Fault } {
  const root: Json = Object.create(null);
  for (const [path, text] of state) {
    if (FOREIGN[verb]?.some((root) => isUnder(path, root))) continue;
    if (path === "model" && text.trimStart().startsWith("{")) {
      const config = readConfig(text);
      if (typeof config === "string") return { fault: { field: "model", message: `model: ${config}` } };
      root.model = config;
    } else {
      place(root, path, toJson(path, text));
    }
  }
  try {
    return { request: root, text: JSON.stringify(root) };
  } catch {
    // The only way to fail: objects nested deeper than the browser's stack.
    return {
      fault: { field: "model", message: "model: got too deep a nesting; allowed: a config.json object" },
    };
  }
}

/** The object of a pasted config, or what is wrong with it. */
function readConfig(text: string): Json | string {
  if (text.length > LONGEST_CONFIG) {
    return `got a text of ${text.length} characters; allowed: a config of at most ${LONGEST_CONFIG}`;
  }
  try {
    return JSON.parse(text) as Json;
  } catch (e) {
    return `got a text that is not JSON; allowed: a config.json object (${(e as Error).message})`;
  }
}

/** Puts a value at a path, making the objects and lists on the way. */
function place(root: Json, path: string, value: unknown): void {
  const keys = path.split(".");
  const last = keys.pop() as string;
  let here: Json = root;
  keys.forEach((key, i) => {
    const next = here[key];
    if (typeof next !== "object" || next === null) {
      here[key] = /^\d+$/.test(keys[i + 1] ?? last) ? [] : Object.create(null);
    }
    here = here[key] as Json;
  });
  // That an object is there does not undo what is said inside it.
  if (!isEmpty(value) || typeof here[last] !== "object") here[last] = value;
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
