/** Joins the inputs, the planner and the answer. */
import "./style.css";
import type { Cluster, EstimateAnswer, Layout, PlanAnswer } from "shardwise";
import { h } from "./dom";
import { form } from "./form/form";
import { type Call, Planner, outcome } from "./planner";
import { type Answers, report } from "./report/report";
import { machinesLine, modelLine } from "./report/reasons";
import { type Fault, request } from "./request";
import { examples, fieldsUnder } from "./schema";
import type { Sharable } from "./share";
import { type State, Store, fromFragment, toFragment } from "./state";
import { suggestions } from "./suggestions";

const opening = fromFragment(location.hash);
const store = new Store(opening.state, opening.beside);
let answers: Answers | undefined;
/** A link that could not be read is said until the person does something. */
let problem = opening.problem;

const names = suggestions(examples("model"));
const inputs = form(store, names.suggest, (): Cluster | undefined => answers?.shown.cluster);
const output = report({ adopt, release: () => store.clear("layout"), current, toField: (path) => inputs.focus(path) });
const planner = new Planner((reason) => output.failure(reason));

const modelSaid = h("p", { class: "resolved" });
const machinesSaid = h("p", { class: "resolved" });
inputs.element.querySelectorAll("section .choice").forEach((choice, i) => {
  choice.after([modelSaid, machinesSaid][i] ?? "");
});
document.querySelector("#verdict")?.append(output.verdict);
document.querySelector("#inputs")?.append(inputs.element, names.element);
document.querySelector("#answer")?.append(output.element);

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
  inputs.show(fault);
  output.fault(fault);
}

/** Asks for the search, and for the layout that the person fixed where there is one. */
function ask(state: State): void {
  const plan = request("plan", state);
  if ("fault" in plan) return refuse(plan.fault);
  const calls: Call[] = [{ verb: "plan", request: JSON.stringify(plan.request) }];
  const fixed = store.has("layout");
  if (fixed) {
    const estimate = request("estimate", state);
    if ("fault" in estimate) return refuse(estimate.fault);
    calls.push({ verb: "estimate", request: JSON.stringify(estimate.request) });
  }
  planner.ask(calls, ([planText, estimateText]) => {
    const planned = outcome<PlanAnswer>(planText ?? "");
    if ("error" in planned) return refuse(planned.error);
    let shown: EstimateAnswer = planned.answer.best;
    if (estimateText !== undefined) {
      const estimated = outcome<EstimateAnswer>(estimateText);
      if ("error" in estimated) return refuse(estimated.error);
      shown = estimated.answer;
    }
    answers = { plan: planned.answer, shown, fixed };
    inputs.show(undefined);
    output.show(answers);
    modelSaid.textContent = modelLine(shown);
    machinesSaid.textContent = machinesLine(shown);
    if (problem !== undefined) output.fault({ field: "", message: `${problem} The page shows its usual start.` });
    names.fill(planner);
  });
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
