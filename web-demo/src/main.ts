/** Joins the inputs, the planner and the answer. */
import "./style.css";
import type { Cluster, CompareAnswer, EstimateAnswer, Layout, PlanAnswer, PlanLine } from "shardwise";
import { WHOLE } from "./core";
import { h } from "./dom";
import { form } from "./form/form";
import { withNodes } from "./form/machines";
import { offlineSwitch } from "./offline";
import { type Call, outcome, Planner } from "./planner";
import type { Compared } from "./report/compare";
import { same } from "./report/plans";
import { machinesLine, modelLine } from "./report/reasons";
import { type Answers, report } from "./report/report";
import { type Fault, request } from "./request";
import { examples, fieldsUnder, PRESENT } from "./schema";
import type { Sharable } from "./share";
import { fromFragment, isUnder, type State, Store, toFragment } from "./state";
import { suggestions } from "./suggestions";

// First of all, so that the core loads while the page is built.
const planner = new Planner((sentence) => {
  busy(false);
  output.failure(sentence);
});
const opening = fromFragment(location.hash);
const store = new Store(opening.state, opening.beside);
let answers: Answers | undefined;
/** A link that could not be read is said until the person does something. */
let problem = opening.problem;

const names = suggestions(examples("model"));
const inputs = form(store, names.suggest, (): Cluster | undefined => answers?.shown.cluster);
const output = report({
  adopt,
  look: (layout) => fix(layout, {}),
  scaleTo(nodes) {
    if (!answers) return;
    const others = [...store.state].filter(([path]) => !isUnder(path, "layout"));
    store.replace(new Map([...others, ...Object.entries(withNodes(store, nodes, answers.shown.cluster))]));
  },
  release: () => store.clear("layout"),
  reckon: () => store.set({ "run.faults": PRESENT }),
  askAbout: () => inputs.focus("why_not.0.sharding"),
  current,
  toField: (path) => inputs.focus(path),
  keep: () => store.replace(store.state, [...store.beside, store.state]),
  edit(index) {
    const chosen = store.beside[index];
    if (chosen)
      store.replace(
        chosen,
        store.beside.map((other, i) => (i === index ? store.state : other)),
      );
  },
  drop: (index) =>
    store.replace(
      store.state,
      store.beside.filter((_, i) => i !== index),
    ),
});

const modelSaid = h("p", { class: "resolved" });
const machinesSaid = h("p", { class: "resolved" });
inputs.element.querySelectorAll("section .choice").forEach((choice, i) => {
  choice.after([modelSaid, machinesSaid][i] ?? "");
});
document.querySelector("#verdict")?.append(output.verdict);
document.querySelector("#inputs")?.append(inputs.element, names.element);
document.querySelector("#answer")?.append(output.element);
document.querySelector("footer")?.append(offlineSwitch() ?? "");

/** A plan becomes the person's own; the best of all needs nothing said of it. */
function adopt(line: PlanLine): void {
  if (!answers) return;
  const { best } = answers.plan;
  if (same(line.layout, best.layout) && line.step_time === best.step.time.total) {
    store.clear("layout");
    return;
  }
  const besides: [string, string | number | null | undefined][] = [
    // `8 x h200-sxm (139.80 GiB)`: the name without what is said of it.
    ["cluster", line.machines?.replace(/ \(.*/, "")],
    ["recipe.optimizer", line.optimizer],
    ["recipe.compute", line.compute],
    ["global_batch", line.global_batch],
  ];
  fix(line.layout, Object.fromEntries(besides.flatMap(([path, it]) => (it ? [[path, String(it)]] : []))));
}

/** Says a layout field by field, and what else goes with it. */
function fix(layout: Layout, besides: Record<string, string>): void {
  const said: [string, string][] = fieldsUnder("layout").map((path) => {
    const value = layout[path.slice("layout.".length) as keyof Layout];
    return [path, Array.isArray(value) ? value.join(",") : String(value)];
  });
  const replaced = ["layout", ...Object.keys(besides)];
  const others = [...store.state].filter(([path]) => !replaced.some((root) => isUnder(path, root)));
  store.replace(new Map([...others, ...said.filter(([, text]) => text !== ""), ...Object.entries(besides)]));
}

function current(): Sharable | undefined {
  const verb = store.has("layout") ? "estimate" : "plan";
  const asked = request(verb, store.state);
  if (!answers || "fault" in asked) return undefined;
  return { link: address(), verb, request: asked.request, state: store.state, ...answers };
}

function address(): string {
  return location.href.replace(/#.*$/, "") + toFragment(store.state, store.beside);
}

function refuse(fault: Fault): void {
  busy(false);
  inputs.show(fault);
  output.fault(fault);
}

/** The search of a set-up. The layout that it fixes is the one in use. */
function searchFor(state: State, besides: [string, string][] = []): Call | Fault {
  const own = [...state].flatMap(([path, text]): [string, string][] =>
    isUnder(path, "layout") ? [[path.replace("layout", "current"), text]] : [],
  );
  const made = request("plan", new Map([...own, ...state, ...besides]));
  return "fault" in made ? made.fault : { verb: "plan", request: made.text };
}

/** The call that shows a set-up: its own layout where it fixes one, else the search. */
function callFor(state: State): Call | Fault {
  if (![...state.keys()].some((path) => isUnder(path, "layout"))) return searchFor(state);
  const made = request("estimate", state);
  return "fault" in made ? made.fault : { verb: "estimate", request: made.text };
}

/** How often it was asked: only the newest answer is shown. */
let asked = 0;

function busy(is: boolean): void {
  document.querySelector("#answer")?.setAttribute("aria-busy", String(is));
}

/** Asks for the search and for the layout that the person fixed. */
function ask(state: State): void {
  asked += 1;
  const turn = asked;
  const own = callFor(state);
  const plan = searchFor(state);
  if ("field" in own) {
    refuse(own);
    return;
  }
  if ("field" in plan) {
    refuse(plan);
    return;
  }
  const fixed = own.verb === "estimate";
  busy(true);
  planner.ask(fixed ? [own, plan] : [plan], (texts) => {
    if (turn !== asked) return;
    const estimated = fixed ? outcome<EstimateAnswer>(texts.shift() ?? "") : undefined;
    if (estimated && "error" in estimated) {
      refuse(estimated.error);
      return;
    }
    const planned = outcome<PlanAnswer>(texts.shift() ?? "");
    if ("error" in planned) {
      // The layout in use is the one that was fixed.
      refuse({ ...planned.error, field: planned.error.field.replace(/^current\b/, "layout") });
      return;
    }
    const shown = estimated?.answer ?? planned.answer.best;
    answers = { plan: planned.answer, shown, fixed, states: [state, ...store.beside] };
    output.show(answers, () => {
      if (turn !== asked) return;
      busy(false);
      clearTimeout(pause);
      pause = setTimeout(() => deepen(turn, state), PAUSE);
    });
    if (performance.getEntriesByName("first plan").length === 0) performance.mark("first plan");
    modelSaid.textContent = modelLine(shown);
    machinesSaid.textContent = machinesLine(shown);
    if (problem !== undefined)
      output.fault({ field: "", message: `${problem} The page shows its usual start.` });
  });
}

/** Milliseconds without a change after which more is asked than the plan. */
const PAUSE = 250;
let pause: ReturnType<typeof setTimeout> | undefined;
/** Beside the first, so that the next plan never waits for what takes longer. */
let slower: Planner | undefined;

/** Asks for what takes longer: other counts of machines, other requests, the set-ups side by side. */
function deepen(turn: number, state: State): void {
  if (turn !== asked) return;
  slower ??= new Planner(() => output.deepen({ plan: undefined, compared: undefined }), WHOLE);
  names.fill(slower);
  const plan = searchFor(state, [
    ["search.scaling", "true"],
    ["search.sensitivity", "true"],
  ]);
  const contenders = [state, ...store.beside].map(callFor);
  const problem = contenders.find((call) => "field" in call);
  const requests = contenders.map((call) => ("verb" in call ? `{"${call.verb}":${call.request}}` : "{}"));
  const comparison: Call[] =
    store.beside.length > 0 && !problem
      ? [{ verb: "compare", request: `{"requests":[${requests.join(",")}]}` }]
      : [];
  if ("field" in plan) return;
  slower.ask([plan, ...comparison], ([planned, text]) => {
    if (turn !== asked) return;
    const read = outcome<PlanAnswer>(planned ?? "");
    output.deepen({
      plan: "answer" in read ? read.answer : undefined,
      compared: problem && "field" in problem ? { problem: problem.message } : compared(text),
    });
  });
}

function compared(text: string | undefined): Compared | undefined {
  if (text === undefined) return undefined;
  const read = outcome<CompareAnswer>(text);
  return "answer" in read ? { answer: read.answer } : { problem: read.error.message };
}

let written: ReturnType<typeof setTimeout> | undefined;
store.onChange((state) => {
  problem = undefined;
  inputs.show(undefined);
  ask(state);
  clearTimeout(written);
  written = setTimeout(() => history.replaceState(null, "", address()), 200);
});
document.querySelector(".skip")?.addEventListener("click", (e) => {
  // The fragment is the set-up's, so the skip link moves the focus itself.
  e.preventDefault();
  document.querySelector<HTMLElement>("#answer")?.focus();
});
addEventListener("hashchange", () => {
  const link = fromFragment(location.hash);
  store.replace(link.state, link.beside);
  problem = link.problem;
});

inputs.show(undefined);
ask(store.state);
