/** The page's end of the worker. Of several questions only the newest is answered. */
import wasm from "../../wasm/pkg/shardwise_bg.wasm?url";
import type { Fault, Verb } from "./request";

export interface Call {
  verb: Verb;
  request: string;
}

/** What the worker is sent: the module first, then questions. */
export type Message = { module: WebAssembly.Module } | { turn: number; calls: Call[] };

export interface Reply {
  turn: number;
  texts: string[];
  failure?: string;
}

/** An answer of the core, or its fault. */
export type Outcome<T> = { answer: T } | { error: Fault };

export class Planner {
  readonly #worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  #turn = 0;
  #busy = false;
  #next: { calls: Call[]; done: (texts: string[]) => void } | undefined;
  readonly #waiting = new Map<number, (texts: string[]) => void>();
  readonly #failed: (reason: string) => void;

  /** The core compiled, for another worker to start with. */
  readonly module: Promise<WebAssembly.Module>;

  constructor(failed: (reason: string) => void, module?: Promise<WebAssembly.Module>) {
    this.#failed = failed;
    this.#worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => this.#receive(data));
    this.#worker.addEventListener("error", (e) => failed(e.message || "the worker did not start"));
    // Fetched here, so that module and worker load side by side.
    this.module =
      module ??
      fetch(wasm)
        .then((file) => file.arrayBuffer())
        .then((bytes) => WebAssembly.compile(bytes));
    this.module.then(
      (module) => this.#post({ module }),
      (e) => failed(String(e)),
    );
  }

  /** Asks; while an answer is on its way a newer question replaces one that waits. */
  ask(calls: Call[], done: (texts: string[]) => void): void {
    if (this.#busy) this.#next = { calls, done };
    else this.#send(calls, done);
  }

  #send(calls: Call[], done: (texts: string[]) => void): void {
    this.#busy = true;
    this.#turn += 1;
    this.#waiting.set(this.#turn, done);
    this.#post({ turn: this.#turn, calls });
  }

  #post(message: Message): void {
    this.#worker.postMessage(message);
  }

  #receive(reply: Reply): void {
    const done = this.#waiting.get(reply.turn);
    this.#waiting.delete(reply.turn);
    this.#busy = false;
    const next = this.#next;
    this.#next = undefined;
    if (next) this.#send(next.calls, next.done);
    if (reply.failure !== undefined) this.#failed(reply.failure);
    else done?.(reply.texts);
  }
}

/** Reads a text of the core. */
export function outcome<T>(text: string): Outcome<T> {
  return JSON.parse(text) as Outcome<T>;
}
