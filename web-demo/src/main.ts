/** Joins the inputs, the planner and the answer. */
import "./style.css";
import type { Cluster, EstimateAnswer, Layout, PlanAnswer } from "shardwise";
import { h } from "./dom";
import { form } from "./form/form";
import { offlineSwitch } from "./offline";
import { type Call, outcome, Planner } from "./planner";
import type { Kept } from "./report/compare";
import { machinesLine, modelLine } from "./report/reasons";
import { type Answers, report } from "./report/report";
import { type Fault, request } from "./request";
import { examples, fieldsUnder } from "./schema";
import type { Sharable } from "./share";
import { fromFragment, isUnder, type State, Store, toFragment } from "./state";
import { suggestions } from "./suggestions";

// First of all, so that the core loads while the page is built.
const planner = new Planner((reason) => output.failure(reason));
const opening = fromFragment(location.hash);
const store = new Store(opening.state, opening.beside);
let answers: Answers | undefined;
/** A link that could not be read is said until the person does something. */
let problem = opening.problem;

const names = suggestions(examples("model"));
const inputs = form(store, names.suggest, (): Cluster | undefined => answers?.shown.cluster);
const output = report({
  adopt,
  release: () => store.clear("layout"),
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

/** The layout of a plan becomes the person's own, field by field. */
function adopt(layout: Layout): void {
  if (answers && JSON.stringify(layout) === JSON.stringify(answers.plan.best.layout)) {
    store.clear("layout");
    return;
  }
  const said: [string, string][] = fieldsUnder("layout").map((path) => {
    const value = layout[path.slice("layout.".length) as keyof Layout];
    return [path, Array.isArray(value) ? value.join(",") : String(value)];
  });
  const others = [...store.state].filter(([path]) => !path.startsWith("layout."));
  store.replace(new Map([...others, ...said.filter(([, text]) => text !== "")]));
}

function current(): Sharable | undefined {
  const verb = store.has("layout") ? "estimate" : "plan";
  const asked = request(verb, store.state);
  if (!answers || "fault" in asked) return undefined;
  return { link: address(), verb, request: asked.request, state: store.state, plan: answers.plan };
}

function address(): string {
  return location.href.replace(/#.*$/, "") + toFragment(store.state, store.beside);
}

function refuse(fault: Fault): void {
  busy(false);
  inputs.show(fault);
  output.fault(fault);
}

/** The call that shows a set-up: its own layout where it fixes one, else the search. */
function callFor(state: State): Call | Fault {
  const verb = [...state.keys()].some((path) => isUnder(path, "layout")) ? "estimate" : "plan";
  const made = request(verb, state);
  return "fault" in made ? made.fault : { verb, request: made.text };
}

/** How often it was asked: only the newest answer is shown. */
let asked = 0;

function busy(is: boolean): void {
  document.querySelector("#answer")?.setAttribute("aria-busy", String(is));
}

/** Asks for the search, for the layout that the person fixed, and for the set-ups kept beside. */
function ask(state: State): void {
  asked += 1;
  const turn = asked;
  const plan = request("plan", state);
  if ("fault" in plan) {
    refuse(plan.fault);
    return;
  }
  const own = callFor(state);
  if ("field" in own) {
    refuse(own);
    return;
  }
  const fixed = own.verb === "estimate";
  const beside = store.beside.map(callFor);
  const calls = [
    { verb: "plan" as const, request: plan.text },
    ...(fixed ? [own] : []),
    ...beside.filter((call) => "verb" in call),
  ];
  busy(true);
  planner.ask(calls, (texts) => {
    if (turn !== asked) return;
    const planned = outcome<PlanAnswer>(texts.shift() ?? "");
    if ("error" in planned) {
      refuse(planned.error);
      return;
    }
    const estimated = fixed ? outcome<EstimateAnswer>(texts.shift() ?? "") : { answer: planned.answer.best };
    if ("error" in estimated) {
      refuse(estimated.error);
      return;
    }
    const shown = estimated.answer;
    const kept = beside.map((call) =>
      "verb" in call ? keptAnswer(call, texts.shift() ?? "") : { problem: call.message },
    );
    answers = { plan: planned.answer, shown, fixed, kept };
    inputs.show(undefined);
    output.show(answers, () => turn === asked && busy(false));
    if (performance.getEntriesByName("first plan").length === 0) performance.mark("first plan");
    modelSaid.textContent = modelLine(shown);
    machinesSaid.textContent = machinesLine(shown);
    if (problem !== undefined)
      output.fault({ field: "", message: `${problem} The page shows its usual start.` });
    names.fill(planner);
  });
}

function keptAnswer(call: Call, text: string): Kept {
  if (call.verb === "plan") {
    const it = outcome<PlanAnswer>(text);
    return "error" in it ? { problem: it.error.message } : { answer: it.answer.best };
  }
  const it = outcome<EstimateAnswer>(text);
  return "error" in it ? { problem: it.error.message } : { answer: it.answer };
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
