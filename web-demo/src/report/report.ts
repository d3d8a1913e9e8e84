/** The answer's side of the page: its sections stay, what they hold is replaced. */
import type { EstimateAnswer, Layout, PlanAnswer } from "shardwise";
import { h, swap } from "../dom";
import type { Fault } from "../request";
import type { Sharable } from "../share";
import { type CompareActions, compare, type Kept } from "./compare";
import { figures } from "./figures";
import { memory } from "./memory";
import { plans } from "./plans";
import { assumptions, nearestChanges, whyNot } from "./reasons";
import { sharePanel } from "./share-panel";
import { step } from "./step";
import { termsDialog } from "./terms";
import { MARKS, sentence } from "./verdict";

export interface Answers {
  plan: PlanAnswer;
  /** The layout that is shown: the plan's best, or the one the person fixed. */
  shown: EstimateAnswer;
  /** Whether the person fixed it. */
  fixed: boolean;
  /** Set-ups kept to compare with. */
  kept: Kept[];
}

export interface Actions extends CompareActions {
  adopt(layout: Layout): void;
  release(): void;
  current(): Sharable | undefined;
  /** Moves to the field that a fault names. */
  toField(path: string): void;
}

export interface Report {
  /** The sentence, which stands on top of everything. */
  verdict: HTMLElement;
  element: HTMLElement;
  /** Shows an answer, part by part, so that no one part keeps a key waiting; `done` when all stand. */
  show(answers: Answers, done: () => void): void;
  /** Says what is wrong; the last answer stays, marked as the last. */
  fault(fault: Fault): void;
  /** Says that nothing can be computed at all. */
  failure(reason: string): void;
}

export function report(actions: Actions): Report {
  const dialog = termsDialog();
  const verdict = h("p", { class: "verdict", role: "status" }, "Reading the catalogue …");
  const bound = h("p", { class: "bound", hidden: true });
  const glance = h("div", { class: "glance" });
  const part = (title: string, name: string) => {
    const content = h("div", {});
    const section = h(
      "section",
      { class: `part part-${name}`, "aria-labelledby": `part-${name}` },
      h("h2", { id: `part-${name}` }, title),
      content,
    );
    return { section, content };
  };
  const changes = part("What would fit", "changes");
  const memoryPart = part("Memory per GPU", "memory");
  const stepPart = part("One step", "step");
  const plansPart = part("Plans that fit, best first", "plans");
  const whyNotPart = part("Why not the others", "why-not");
  const assumedPart = part("Assumed", "assumed");
  const comparePart = part("Side by side", "compare");
  const share = part("Take it along", "share");
  share.content.append(sharePanel(actions.current));
  const parts = [changes, memoryPart, stepPart, plansPart, whyNotPart, assumedPart, comparePart, share];
  const details = h("div", { class: "parts", hidden: true }, ...parts.map((p) => p.section));
  const last = h("p", { class: "last", hidden: true }, "The last answer that could be computed:");
  const element = h("div", { class: "answer" }, last, bound, glance, details, dialog.element);

  const stale = (is: boolean) => {
    element.classList.toggle("stale", is);
    last.hidden = !is || details.hidden;
  };

  let turn = 0;
  /** Each in a task of its own; a newer list takes the place of an older one. */
  const oneByOne = (tasks: (() => void)[]) => {
    turn += 1;
    const own = turn;
    const next = () => {
      if (own !== turn) return;
      tasks.shift()?.();
      if (tasks.length > 0) setTimeout(next);
    };
    // The first answer comes at once and whole, so that nothing on the page is pushed about.
    if (own === 1) for (const task of tasks) task();
    else setTimeout(next);
  };

  return {
    verdict,
    element,
    show({ plan, shown, fixed, kept }, done) {
      const { verdict: kind, text } = sentence(shown, fixed ? undefined : plan);
      verdict.className = `verdict verdict-${kind}`;
      swap(verdict, h("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]), h("span", {}, text));
      bound.hidden = !fixed;
      swap(
        bound,
        fixed &&
          h(
            "span",
            {},
            `This is a layout you fixed; the search's best is ${plan.best.name}, micro-batch ${plan.best.layout.micro_batch}. `,
          ),
        fixed &&
          h("button", { type: "button", "data-key": "release", click: actions.release }, "Back to the best"),
      );
      stale(false);
      details.hidden = false;
      swap(glance, figures(shown, dialog));
      oneByOne([
        () => swap(memoryPart.content, ...memory(shown, dialog)),
        () => swap(stepPart.content, ...step(shown, dialog)),
        () => swap(plansPart.content, ...plans(plan, shown, actions.adopt)),
        () => {
          swap(whyNotPart.content, ...whyNot(plan));
          swap(assumedPart.content, ...assumptions(shown));
          swap(comparePart.content, ...compare(shown, kept, actions));
          changes.section.hidden = plan.nearest_changes.length === 0;
          swap(changes.content, ...nearestChanges(plan));
        },
        done,
      ]);
    },
    fault({ field, message }) {
      verdict.className = "verdict verdict-fault";
      swap(
        verdict,
        h("span", { class: "mark", "aria-hidden": "true" }, "?"),
        h(
          "span",
          {},
          `${message} `,
          field !== "" &&
            h(
              "button",
              { type: "button", class: "link", click: () => actions.toField(field) },
              "Go to the field",
            ),
        ),
      );
      bound.hidden = true;
      stale(true);
    },
    failure(reason) {
      verdict.className = "verdict verdict-fault";
      swap(
        verdict,
        h("span", { class: "mark", "aria-hidden": "true" }, "?"),
        h(
          "span",
          {},
          `The planner could not start in this browser: ${reason}. It needs WebAssembly and module workers.`,
        ),
      );
      stale(true);
    },
  };
}
