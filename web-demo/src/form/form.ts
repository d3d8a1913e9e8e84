/** The inputs: what most people set first, the rest of the schema folded under headings. */
import type { Cluster } from "shardwise";
import { h } from "../dom";
import type { Fault } from "../request";
import { field, fieldsUnder } from "../schema";
import type { Store } from "../state";
import { type Control, control, type Suggest } from "./control";
import { machinesControl } from "./machines";
import { modelControl } from "./model";

/** Always in sight, in this order. */
const FIRST = [
  "seq_len",
  "global_batch",
  "run.tokens",
  "run.steps",
  "recipe.method",
  "recipe.optimizer",
  "search.objective",
  "run.price",
];

/**
 * Headings, and the fields or roots under each. A field goes to the first heading that names it;
 * the later, wider roots take whatever the schema has besides.
 */
const FOLDED: { title: string; roots: string[] }[] = [
  { title: "Run", roots: ["run"] },
  {
    title: "Precision",
    roots: ["recipe.compute", "recipe.params_dtype", "recipe.autocast", "recipe.reduce_dtype"],
  },
  {
    title: "Adapters and quantised base",
    roots: [
      "recipe.lora",
      "recipe.base_quantization",
      "recipe.double_quantization",
      "recipe.kbit_preparation",
    ],
  },
  { title: "Quantisation-aware training", roots: ["recipe.qat"] },
  { title: "Communication and data loading", roots: ["recipe.runtime"] },
  { title: "Framework, kernels and loss", roots: ["recipe"] },
  { title: "What the search may vary", roots: ["search"] },
  { title: "A layout of your own", roots: ["layout"] },
];

export interface Form {
  element: HTMLElement;
  /** Shows the state, and what is wrong with it. */
  show(fault: Fault | undefined): void;
  /** Whether a field of the form shows that fault. */
  shows(fault: Fault): boolean;
  focus(path: string): void;
}

interface Fold {
  details: HTMLDetailsElement;
  count: HTMLElement;
  controls: Control[];
}

export function form(store: Store, suggest: Suggest, resolved: () => Cluster | undefined): Form {
  const taken = new Set(FIRST);
  const model = modelControl(store, suggest("model") ?? "", field("model")?.help ?? "");
  const machines = machinesControl(store, suggest, resolved);
  const first = FIRST.filter((path) => field(path)).map((path) => control(path, store, suggest));
  const folds = FOLDED.map(({ title, roots }) => fold(title, roots, taken, store, suggest));
  const controls = [model, ...machines.controls, ...first, ...folds.flatMap((f) => f.controls)];
  const byPath = new Map(controls.map((c) => [c.path, c]));

  /** The control of a field, or of the nearest field around it. */
  const nearest = (path: string): Control | undefined => {
    for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
      const found = byPath.get(at);
      if (found) return found;
    }
    return undefined;
  };

  return {
    element: h(
      "form",
      { class: "inputs", "aria-label": "Set-up", submit: (e) => e.preventDefault() },
      section("Model", model.element),
      section("Machines", machines.element),
      section("Training", h("div", { class: "fields" }, ...first.map((c) => c.element))),
      h(
        "section",
        {},
        h("h2", {}, "More"),
        ...folds.filter((f) => f.controls.length > 0).map((f) => f.details),
      ),
    ),
    show(fault) {
      const at = fault && nearest(fault.field);
      for (const c of controls) {
        c.show();
        c.fault(c === at ? (fault?.message ?? "") : "");
      }
      for (const f of folds) {
        const set = f.controls.filter((c) => store.get(c.path) !== "").length;
        f.count.textContent = set === 0 ? "" : `${set} set`;
        if (at && f.controls.includes(at)) f.details.open = true;
      }
    },
    shows: (fault) => nearest(fault.field) !== undefined,
    focus(path) {
      nearest(path)?.focus();
    },
  };
}

function section(title: string, content: HTMLElement): HTMLElement {
  return h("section", {}, h("h2", {}, title), content);
}

function fold(title: string, roots: string[], taken: Set<string>, store: Store, suggest: Suggest): Fold {
  const paths = roots.flatMap(fieldsUnder).filter((path) => !taken.has(path));
  for (const path of paths) taken.add(path);
  const controls = paths.map((path) => control(path, store, suggest));
  const count = h("span", { class: "set" });
  const details = h(
    "details",
    {},
    h("summary", {}, title, " ", count),
    h("div", { class: "fields" }, ...controls.map((c) => c.element)),
  );
  return { details, count, controls };
}
