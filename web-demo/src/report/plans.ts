/** The plans that fit, best first; any of them can be adopted. */
import type { EstimateAnswer, Layout, PlanAnswer, PlanLine } from "shardwise";
import { h } from "../dom";
import * as format from "../format";
import { MARKS } from "./verdict";

const COLUMNS = [
  "Strategy",
  "Micro × accum.",
  "Recompute",
  "Memory (free)",
  "Step",
  "Tokens/s",
  "MFU",
  "Run",
  "Cost",
];

export function plans(
  plan: PlanAnswer,
  shown: EstimateAnswer,
  adopt: (line: PlanLine) => void,
): HTMLElement[] {
  if (plan.ranked.length === 0) return [h("p", {}, "No layout fits.")];
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ranked plans" },
      h(
        "table",
        { class: "plans" },
        h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...plan.ranked.map((line, i) => row(line, i, shown, adopt))),
      ),
    ),
    h(
      "p",
      { class: "caption" },
      `Choose a plan to see it above. ${format.count(plan.candidates)} layouts looked at, ${format.count(plan.costed)} fit and were costed in full, ${plan.stop_reason === "exhausted" ? `bounds spared the rest of ${format.count(plan.brute_force)}` : "then the limit of candidates was reached"}.`,
    ),
  ];
}

function row(line: PlanLine, i: number, shown: EstimateAnswer, adopt: (line: PlanLine) => void): HTMLElement {
  const { layout } = line;
  const isShown = same(layout, shown.layout);
  const needed = shown.fit.capacity - line.headroom;
  const number = (text: string) => h("td", { class: "number" }, text);
  return h(
    "tr",
    { class: isShown ? "chosen" : null, "aria-current": isShown ? "true" : null },
    h(
      "th",
      { scope: "row" },
      h(
        "button",
        {
          type: "button",
          "data-key": `adopt-${i}`,
          "aria-pressed": isShown ? "true" : "false",
          title: isShown ? "Shown above" : "Show this plan above",
          click: () => adopt(line),
        },
        `${line.name}${chosen(line)}`,
      ),
      line.verdict === "tight" &&
        h(
          "span",
          { class: "tight", title: "fits, but less surely than nine times in ten" },
          ` ${MARKS.tight} tight`,
        ),
    ),
    number(`${layout.micro_batch} × ${format.count(line.gradient_accumulation)}`),
    h("td", {}, layout.recompute),
    number(`${format.gib(needed)} (${format.gib(line.headroom)}) GiB`),
    number(format.seconds(line.step_time)),
    number(format.count(line.tokens_per_second)),
    number(format.percent(line.mfu)),
    number(line.run_time == null ? "" : format.seconds(line.run_time)),
    number(line.cost == null ? "" : format.usd(line.cost)),
  );
}

/** Whether two layouts are one: every field that the core resolved is equal. */
export function same(a: Layout, b: Layout): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** What was left open besides the layout, and how this plan has it. */
function chosen(p: PlanLine): string {
  return [
    p.machines && `on ${p.machines.replace(/ \(.*/, "")}`,
    p.optimizer,
    p.compute,
    p.global_batch && `batch ${format.count(p.global_batch)}`,
  ]
    .map((word) => (word ? `, ${word}` : ""))
    .join("");
}

/** A plan with what tells it from others of its name. */
export function describe(p: PlanLine): string {
  const { micro_batch, recompute, offload } = p.layout;
  const away = offload.length > 0 ? `, offload ${offload.join("+")}` : "";
  return `${p.name}, micro-batch ${micro_batch}, recompute ${recompute}${away}${chosen(p)}`;
}
