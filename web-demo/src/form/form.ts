/** The inputs: what most people set first, the rest of the schema folded under headings. */
import type { Cluster } from "shardwise";
import { h } from "../dom";
import type { Fault } from "../request";
import { field, fieldsInside, fieldsUnder, PRESENT } from "../schema";
import type { Store } from "../state";
import { type Control, control, type Group, group, type Suggest } from "./control";
import { machinesControl } from "./machines";
import { modelControl } from "./model";
import { PRESENCE, presence } from "./presence";

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
  "run.faults",
];

/** The page asks for these by itself. */
const ITS_OWN = ["search.scaling", "search.sensitivity"];

/**
 * Headings, and the fields or roots under each. A field goes to the first heading that names it;
 * the later, wider roots take whatever the schema has besides.
 */
const FOLDED: { title: string; roots: string[] }[] = [
  { title: "Checkpoints", roots: ["run.checkpoint"] },
  { title: "Losses, spot and deadline", roots: ["run.faults", "run.deadline_hours"] },
  { title: "Money besides", roots: ["run.expenses", "run.owned", "run.offers"] },
  { title: "Serving the result", roots: ["run.serving"] },
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
  { title: "Framework, kernels and loss", roots: ["recipe", "run"] },
  { title: "Calibration by runs of one's own", roots: ["calibration"] },
  { title: "What the search may vary", roots: ["search", "alternatives"] },
  { title: "A layout of your own", roots: ["layout"] },
  { title: "Why not this layout?", roots: ["why_not"] },
];

export interface Form {
  element: HTMLElement;
  /** Shows the state, and what is wrong with it. */
  show(fault: Fault | undefined): void;
  focus(path: string): void;
}

interface Fold extends Group {
  details: HTMLDetailsElement;
  count: HTMLElement;
}

export function form(store: Store, suggest: Suggest, resolved: () => Cluster | undefined): Form {
  const taken = new Set([...FIRST, ...ITS_OWN]);
  const model = modelControl(store, suggest("model") ?? "", field("model")?.help ?? "");
  const made: Control[] = [];
  const make = (path: string): Control => {
    const it = path in PRESENCE ? presence(path, store) : control(path, store, suggest);
    it.show();
    made.push(it);
    return it;
  };
  const inFull = group(fieldsInside("cluster"), make);
  const machines = machinesControl(store, suggest("cluster"), resolved, inFull);
  const first = FIRST.filter((path) => field(path)).map(make);
  made.push(model, machines);
  first
    .find((c) => c.path === "run.price")
    ?.element.addEventListener("input", () => {
      // A spot price without what makes it cheap would flatter it; the box below shows it.
      if (store.get("run.price") === "spot" && !store.has("run.faults")) store.set({ "run.faults": PRESENT });
    });
  const folds = FOLDED.map(({ title, roots }) => {
    const paths = roots
      .flatMap((root) => [...(root in PRESENCE ? [root] : []), ...fieldsUnder(root)])
      .filter((path) => !taken.has(path));
    for (const path of paths) taken.add(path);
    return fold(title, group(paths, make));
  }).filter((f) => f.paths.length > 0);
  const groups = [inFull, ...folds];

  /** The control of a field, or of the nearest field around it. */
  const nearest = (named: string): Control | undefined => {
    // The core writes `networks[0].link`, and does not say which of several layouts it was asked about.
    const path = named.replace(/\[(\d+)\]/g, ".$1").replace(/^why_not\.(?!\d)/, "why_not.0.");
    for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
      groups.find((g) => g.paths.includes(at))?.controls();
      const found = made.find((c) => c.path === at);
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
      h("section", {}, h("h2", {}, "More"), ...folds.map((f) => f.details)),
    ),
    show(fault) {
      const at = fault && nearest(fault.field);
      for (const c of made) {
        c.show();
        c.fault(c === at ? (fault?.message ?? "") : "");
      }
      for (const f of folds) {
        const set = f.paths.filter((path) => store.get(path) !== "").length;
        f.count.textContent = set === 0 ? "" : `${set} set`;
        if (at && f.paths.includes(at.path)) f.details.open = true;
      }
    },
    focus(path) {
      const it = nearest(path);
      for (const f of folds) if (it && f.paths.includes(it.path)) f.details.open = true;
      it?.focus();
    },
  };
}

function section(title: string, content: HTMLElement): HTMLElement {
  return h("section", {}, h("h2", {}, title), content);
}

function fold(title: string, fields: Group): Fold {
  const count = h("span", { class: "set" });
  const summary = h("summary", {}, title, " ", count);
  const details = h("details", { toggle: () => fields.controls() }, summary, fields.element);
  return { ...fields, details, count };
}
