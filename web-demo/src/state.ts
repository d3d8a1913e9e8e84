/**
 * What the person has said: the text of each field under its path in the request, as in
 * `recipe.lora.rank`. A field that is not here has the core's default. The URL's fragment holds
 * exactly this, so a link can be read, edited and kept.
 */
export type State = ReadonlyMap<string, string>;

/** Version of the fragment. It rises when a path changes its meaning. */
const FORMAT = "1";
const LONGEST_FRAGMENT = 400_000;
const MOST_FIELDS = 300;
const PATH = /^[a-zA-Z][a-zA-Z0-9_]*(\.[a-zA-Z0-9_]+){0,7}$/;

/** What the page opens with: a plan is on the screen at once. */
export const START: State = new Map([
  ["model", "llama-3.1-8b"],
  ["cluster", "8xH100-SXM-80GB"],
  ["seq_len", "8192"],
  ["global_batch", "64"],
  ["run.tokens", "10e9"],
]);

/** A set-up and those kept beside it, or why a link cannot be read. */
export interface Link {
  state: State;
  beside: State[];
  problem?: string;
}

/** Writes a set-up, and those to compare it with, as the fragment of a link. */
export function toFragment(state: State, beside: readonly State[] = []): string {
  const others = beside.map((other) => `&beside=${readable(fields(other))}`);
  return `#v=${FORMAT}&${fields(state)}${others.join("")}`;
}

/** Reads a fragment. Whatever is in it, the answer is a state or a message. */
export function fromFragment(fragment: string): Link {
  const text = fragment.replace(/^#/, "");
  if (text === "") return { state: START, beside: [] };
  if (text.length > LONGEST_FRAGMENT) {
    return refused(`This link holds ${text.length} characters; at most ${LONGEST_FRAGMENT} are read.`);
  }
  const given = new URLSearchParams(text);
  const version = given.get("v");
  if (version !== FORMAT) {
    return refused(
      version === null
        ? "This link names no version (v=1), so it was not made here."
        : `This link is of version ${version.slice(0, 20)}; this page reads version ${FORMAT}.`,
    );
  }
  const beside: State[] = [];
  const own = new URLSearchParams();
  for (const [path, value] of given) {
    if (path === "v") continue;
    if (path !== "beside") {
      own.append(path, value);
      continue;
    }
    const read = readFields(new URLSearchParams(value));
    if (typeof read === "string") return refused(read);
    if (beside.length < 2) beside.push(read);
  }
  const state = readFields(own);
  return typeof state === "string" ? refused(state) : { state, beside };
}

function refused(problem: string): Link {
  return { state: START, beside: [], problem };
}

function readFields(given: URLSearchParams): State | string {
  const state = new Map<string, string>();
  for (const [path, value] of given) {
    if (!PATH.test(path)) return `This link holds a field that no request has: ${path.slice(0, 60)}`;
    if (state.size >= MOST_FIELDS) return `This link holds more than ${MOST_FIELDS} fields.`;
    state.set(path, value);
  }
  return state;
}

function fields(state: State): string {
  return [...state].map(([path, text]) => `${path}=${readable(text)}`).join("&");
}

/** Encoded no more than a fragment needs: `8xH100@us-east-1` and `zero3,fsdp2` stay as they are. */
function readable(text: string): string {
  return encodeURIComponent(text)
    .replace(/%20/g, "+")
    .replace(/%(3A|2C|2F|40)/g, decodeURIComponent);
}

/** The set-up of the moment, with whoever wants to know when it changes. */
export class Store {
  #state: State;
  #beside: readonly State[] = [];
  readonly #listeners: ((state: State) => void)[] = [];

  constructor(state: State, beside: readonly State[]) {
    this.#state = state;
    this.#beside = beside;
  }

  get state(): State {
    return this.#state;
  }

  get beside(): readonly State[] {
    return this.#beside;
  }

  get(path: string): string {
    return this.#state.get(path) ?? "";
  }

  onChange(listener: (state: State) => void): void {
    this.#listeners.push(listener);
  }

  /** Sets fields; an empty text returns a field to its default. */
  set(changes: Record<string, string>): void {
    const next = new Map(this.#state);
    for (const [path, text] of Object.entries(changes)) {
      if (text === "") next.delete(path);
      else next.set(path, text);
    }
    this.replace(next);
  }

  /** Returns every field under a root to its default. */
  clear(root: string): void {
    this.replace(new Map([...this.#state].filter(([path]) => !isUnder(path, root))));
  }

  replace(state: State, beside: readonly State[] = this.#beside): void {
    this.#state = state;
    this.#beside = beside;
    for (const listener of this.#listeners) listener(state);
  }

  has(root: string): boolean {
    return [...this.#state.keys()].some((path) => isUnder(path, root));
  }
}

export function isUnder(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}.`);
}
