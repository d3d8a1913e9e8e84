/** The answer's side of the page: its sections stay, what they hold is replaced. */
import type { CurvePoint, EstimateAnswer, Layout, PlanAnswer } from "shardwise";
import { h, swap } from "../dom";
import type { Fault } from "../request";
import type { Sharable } from "../share";
import type { State } from "../state";
import { type CompareActions, type Compared, compare } from "./compare";
import { figures } from "./figures";
import { memory } from "./memory";
import { outlook } from "./outlook";
import { plans } from "./plans";
import { assumptions, nearestChanges, whyNot } from "./reasons";
import { scaling } from "./scaling";
import { sharePanel } from "./share-panel";
import { step } from "./step";
import { termsDialog } from "./terms";
import { type TradeoffActions, tradeoff } from "./tradeoff";
import { MARKS, sentence } from "./verdict";
import { changes, sensitivity, serving, warnings } from "./whatif";

export interface Answers {
  plan: PlanAnswer;
  /** The layout that is shown: the plan's best, or the one the person fixed. */
  shown: EstimateAnswer;
  /** Whether the person fixed it. */
  fixed: boolean;
  /** This set-up and those kept beside it. */
  states: State[];
}

/** What takes longer to find out: the same on other machines, and for other requests. */
export interface Deeper {
  /** The plan with its scaling curve and sensitivity, or why there is none. */
  plan: PlanAnswer | undefined;
  compared: Compared | undefined;
}

export interface Actions extends CompareActions, TradeoffActions {
  look(layout: Layout): void;
  release(): void;
  /** Asks for what may go wrong in the run. */
  reckon(): void;
  /** Moves to where a layout to be explained is said. */
  askAbout(): void;
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
  /** Shows what was found out later. */
  deepen(deeper: Deeper): void;
  /** Says what is wrong; the last answer stays, marked as the last. */
  fault(fault: Fault): void;
  /** Says, in a sentence, that nothing could be computed. */
  failure(sentence: string): void;
}

export function report(actions: Actions): Report {
  const dialog = termsDialog();
  const verdict = h("p", { class: "verdict", role: "status" }, "Reading the catalogue …");
  const bound = h("p", { class: "bound", hidden: true });
  const glance = h("div", { class: "glance" });
  const warned = h("ul", { class: "warnings", hidden: true });
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
  const fitting = part("What would fit", "changes");
  const memoryPart = part("Memory per GPU", "memory");
  const stepPart = part("One step", "step");
  const tradeoffPart = part("Time against money", "tradeoff");
  const scalingPart = part("More machines", "scaling");
  const outlookPart = part("The run, with what may go wrong", "outlook");
  const servingPart = part("Serving the result", "serving");
  const changesPart = part("What to change first", "better");
  const plansPart = part("Plans that fit, best first", "plans");
  const whyNotPart = part("Why not the others", "why-not");
  const whatIfPart = part("What if", "what-if");
  const assumedPart = part("Assumed", "assumed");
  const comparePart = part("Side by side", "compare");
  const share = part("Take it along", "share");
  share.content.append(sharePanel(actions.current));
  const parts = [
    fitting,
    changesPart,
    memoryPart,
    stepPart,
    tradeoffPart,
    scalingPart,
    outlookPart,
    plansPart,
    servingPart,
    whyNotPart,
    whatIfPart,
    assumedPart,
    comparePart,
    share,
  ];
  const details = h("div", { class: "parts", hidden: true }, ...parts.map((p) => p.section));
  const last = h("p", { class: "last", hidden: true }, "The last answer that could be computed:");
  const element = h("div", { class: "answer" }, last, bound, glance, warned, details, dialog.element);

  const stale = (is: boolean) => {
    element.classList.toggle("stale", is);
    last.hidden = !is || details.hidden;
  };

  let shownNow: Answers | undefined;
  const later = [scalingPart, whatIfPart];
  const awaited = (are: boolean) => {
    for (const it of [...later, comparePart]) it.section.setAttribute("aria-busy", String(are));
  };

  const drawTradeoff = (points: CurvePoint[]) => {
    if (!shownNow) return;
    const { plan, shown } = shownNow;
    const redraw = () => drawTradeoff(points);
    swap(tradeoffPart.content, ...tradeoff(plan, shown, points, actions, redraw));
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
    // Of the first answer what a screen shows comes at once, so that nothing in sight is pushed about.
    if (own === 1) for (const task of tasks.splice(0, 2)) task();
    setTimeout(next);
  };

  return {
    verdict,
    element,
    show(answers, done) {
      const { plan, shown, fixed, states } = answers;
      const { run } = shown;
      shownNow = answers;
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
      warned.hidden = plan.warnings.length === 0;
      swap(warned, ...warnings(plan));
      awaited(true);
      oneByOne([
        () => {
          fitting.section.hidden = plan.feasible;
          swap(fitting.content, ...nearestChanges(plan));
          changesPart.section.hidden = !fixed;
          swap(changesPart.content, ...changes(plan, actions.look));
        },
        () => swap(memoryPart.content, ...memory(shown, dialog)),
        () => swap(stepPart.content, ...step(shown, dialog)),
        () => drawTradeoff([]),
        () => {
          outlookPart.section.hidden = run === null;
          swap(outlookPart.content, ...outlook(shown, dialog, actions.reckon));
        },
        () => swap(plansPart.content, ...plans(plan, shown, actions.adopt)),
        () => {
          swap(whyNotPart.content, ...whyNot(plan, actions.look, actions.askAbout));
          swap(assumedPart.content, ...assumptions(shown));
          swap(comparePart.content, ...compare(undefined, states, actions));
          servingPart.section.hidden = !shown.serving;
          swap(servingPart.content, ...(shown.serving ? serving(shown.serving) : []));
        },
        done,
      ]);
    },
    deepen({ plan, compared }) {
      if (!shownNow) return;
      const { shown, states } = shownNow;
      for (const it of later) it.section.hidden = plan === undefined;
      oneByOne([
        () => swap(comparePart.content, ...compare(compared, states, actions)),
        ...(plan
          ? [
              () => swap(scalingPart.content, ...scaling(plan.scaling, shown, actions.scaleTo)),
              () => swap(whatIfPart.content, ...sensitivity(plan.sensitivity, plan.best)),
              () => drawTradeoff(plan.scaling?.points ?? []),
            ]
          : []),
        () => awaited(false),
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
    failure(sentence) {
      verdict.className = "verdict verdict-fault";
      swap(verdict, h("span", { class: "mark", "aria-hidden": "true" }, "?"), h("span", {}, sentence));
      stale(true);
    },
  };
}
