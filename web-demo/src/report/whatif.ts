/** What would change: about the layout in use, about the request; and what the figures do not show. */
import type { EstimateAnswer, PlanAnswer, Sensitivity, ServingOutlook } from "shardwise";
import { h } from "../dom";
import * as format from "../format";

export function warnings(plan: PlanAnswer): HTMLElement[] {
  return plan.warnings.map((w) => h("li", {}, w.says, " ", h("span", { class: "source" }, w.source)));
}

/** From the layout in use to a better one, most saved first. */
export function changes(
  plan: PlanAnswer,
  adopt: (layout: PlanAnswer["best"]["layout"]) => void,
): HTMLElement[] {
  if (plan.changes.length === 0) return [h("p", {}, "No single change makes this layout faster.")];
  return [
    h(
      "ul",
      { class: "plain" },
      ...plan.changes.map((c, i) =>
        h(
          "li",
          {},
          h("button", { type: "button", "data-key": `change-${i}`, click: () => adopt(c.layout) }, c.change),
          ` ${c.saves === null ? `fits, with ${format.seconds(c.step_time)} a step` : `saves ${format.seconds(c.saves)} a step`}${c.saves_money ? `, ${format.usd(c.saves_money)} over the run` : ""}`,
        ),
      ),
    ),
  ];
}

export function sensitivity(lines: Sensitivity[], shown: EstimateAnswer): HTMLElement[] {
  if (lines.length === 0) return [h("p", {}, "Nothing to vary.")];
  const rate = shown.step.tokens / shown.step.time.total;
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Plans for other requests" },
      h(
        "table",
        { class: "what-if" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...["If", "Best plan then", "Tokens/s", "", "Cost"].map((c) =>
              c === "" ? h("td") : h("th", { scope: "col" }, c),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          ...lines.map((line) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, line.change),
              h("td", {}, line.name === null ? "nothing fits" : line.other_plan ? line.name : "the same"),
              h(
                "td",
                { class: "number" },
                line.tokens_per_second === null ? "" : format.count(line.tokens_per_second),
              ),
              h(
                "td",
                { class: "number muted" },
                line.tokens_per_second === null ? "" : format.signed(line.tokens_per_second / rate - 1),
              ),
              h("td", { class: "number" }, line.cost === null ? "" : format.usd(line.cost)),
            ),
          ),
        ),
      ),
    ),
  ];
}

export function serving(it: ServingOutlook): HTMLElement[] {
  const known: [string, string | null][] = [
    ["Weights", `${it.bits} bits`],
    [
      "Memory with one sequence",
      `${format.bytes(it.memory)} of ${format.bytes(it.limit)}: ${it.fits ? "fits" : "does not fit"}`,
    ],
    ["Sequences together", format.count(it.batch)],
    ["To the first token", it.first_token === null ? null : format.seconds(it.first_token)],
    [
      "Answer tokens",
      it.tokens_per_second === null ? null : `${format.count(it.tokens_per_second)} a second`,
    ],
    ["A million of them", it.per_million === null ? null : format.usd(it.per_million)],
    ["With 16-bit weights", it.plain_per_million === null ? null : format.usd(it.plain_per_million)],
    ["Training costs more by", it.extra_training === null ? null : format.usd(it.extra_training)],
    [
      "Paid back after",
      it.break_even_tokens === null
        ? null
        : `${format.short(it.break_even_tokens)} tokens${it.break_even_days === null ? "" : `, ${format.count(it.break_even_days)} days`}`,
    ],
  ];
  return [
    h(
      "dl",
      { class: "facts" },
      ...known.flatMap(([name, value]) =>
        value === null ? [] : [h("div", {}, h("dt", {}, name), h("dd", {}, value))],
      ),
    ),
  ];
}
