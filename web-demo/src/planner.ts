/** The page's end of the worker. Of several questions only the newest is answered. */
import { type Core, FIRST, WHOLE } from "./core";
import type { Fault, Verb } from "./request";

export interface Call {
  verb: Verb;
  request: string;
}

/** What the worker is sent: the module first, then questions. */
export type Message = { module: WebAssembly.Module } | { calls: Call[] };

/** What the core printed, or why it could not. */
export type Reply = { texts: string[] } | { failure: string };

/** An answer of the core, or its fault. */
export type Outcome<T> = { answer: T } | { error: Fault };

interface Question {
  calls: Call[];
  done: (texts: string[]) => void;
}

export class Planner {
  readonly #failed: (sentence: string) => void;
  readonly #opening: Core;
  /** What the worker runs. */
  #core: Core;
  #worker: Worker | undefined;
  /** The question on its way, and the newest of those that wait for its answer. */
  #asked: Question | undefined;
  #next: Question | undefined;

  /** Starts with the first module, or with the whole one where nobody waits for the first answer. */
  constructor(failed: (sentence: string) => void, opening: Core = FIRST) {
    this.#failed = failed;
    this.#opening = opening;
    this.#core = opening;
    this.#start(opening);
  }

  /** Asks; while an answer is on its way a newer question replaces one that waits. */
  ask(calls: Call[], done: (texts: string[]) => void): void {
    if (this.#asked) this.#next = { calls, done };
    else this.#send({ calls, done });
  }

  #send(question: Question): void {
    this.#asked = question;
    post(this.#worker ?? this.#start(this.#opening), { calls: question.calls });
  }

  /** Takes a new worker, which loads beside its module. */
  #start(core: Core): Worker {
    this.#worker?.terminate();
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    this.#core = core;
    this.#worker = worker;
    const fall = (sentence: string) => worker === this.#worker && this.#fall(sentence);
    worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
      if ("failure" in data) fall(`The planner stopped at this question: ${data.failure}.`);
      else if (worker === this.#worker) this.#receive(data.texts);
    });
    worker.addEventListener("error", ({ message }) => fall(`${START}: ${message || "no worker"}. ${NEEDS}`));
    core().then(
      (module) => post(worker, { module }),
      (e) => fall(`The planner could not be loaded: ${e}. The next change tries again. ${NEEDS}`),
    );
    return worker;
  }

  #receive(texts: string[]): void {
    const answered = this.#asked;
    this.#proceed(this.#next);
    answered?.done(texts);
    if (this.#core === FIRST) this.#exchange();
  }

  #proceed(next: Question | undefined): void {
    this.#asked = undefined;
    this.#next = undefined;
    if (next) this.#send(next);
  }

  /** The whole module takes the first one's place as soon as it is there and nothing is on its way. */
  #exchange(): void {
    WHOLE().then(
      () => {
        if (this.#core === FIRST && !this.#asked) this.#start(WHOLE);
      },
      // Said when a question needs it, which asks for it again.
      () => {},
    );
  }

  /** A module that failed has done its last: the first one's question goes to the whole one. */
  #fall(sentence: string): void {
    if (this.#core === FIRST) {
      this.#start(WHOLE);
      this.#proceed(this.#next ?? this.#asked);
      return;
    }
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#failed(sentence);
    this.#proceed(this.#next);
  }
}

const START = "The planner could not start in this browser";
const NEEDS = "It needs WebAssembly and module workers.";

function post(worker: Worker, message: Message): void {
  worker.postMessage(message);
}

/** Reads a text of the core. */
export function outcome<T>(text: string): Outcome<T> {
  return JSON.parse(text) as Outcome<T>;
}
