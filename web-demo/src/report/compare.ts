/** Two or three set-ups side by side: the one being edited, and those kept. */
import type { EstimateAnswer } from "shardwise";
import { h } from "../dom";
import * as format from "../format";
import { MARKS, needed } from "./verdict";

/** A set-up that was kept: what the core says of it now, or why it says nothing. */
export type Kept = { answer: EstimateAnswer } | { problem: string };

export interface CompareActions {
  keep(): void;
  /** Changes places with the set-up being edited. */
  edit(index: number): void;
  drop(index: number): void;
}

export const MOST_KEPT = 2;

const ROWS: [string, (it: EstimateAnswer) => string][] = [
  ["Model", (it) => it.model.name],
  [
    "Machines",
    (it) =>
      `${it.cluster.nodes * it.cluster.gpus_per_node} × ${it.cluster.accelerator}${it.cluster.instance ? ` (${it.cluster.instance})` : ""}`,
  ],
  ["Batch", (it) => `${format.count(it.global_batch)} × ${format.count(it.seq_len)} tokens`],
  ["Layout", (it) => `${it.name}, micro-batch ${it.layout.micro_batch}, recompute ${it.layout.recompute}`],
  ["Memory per GPU", (it) => `${MARKS[it.fit.verdict]} ${format.ofBytes(needed(it), it.fit.capacity)}`],
  ["Step", (it) => format.seconds(it.step.time.total)],
  ["Throughput", (it) => `${format.count(it.step.tokens / it.step.time.total)} tokens/s`],
  ["MFU", (it) => format.percent(it.step.mfu)],
  ["Run", (it) => (it.run ? format.seconds(it.run.time) : "")],
  ["Cost", (it) => (it.run ? (it.run.cost ? format.usd(it.run.cost.total) : "unknown") : "")],
];

export function compare(shown: EstimateAnswer, kept: Kept[], actions: CompareActions): HTMLElement[] {
  const keep = h(
    "button",
    { type: "button", "data-key": "keep", disabled: kept.length >= MOST_KEPT, click: actions.keep },
    "Keep this set-up beside",
  );
  if (kept.length === 0) {
    return [
      h("p", { class: "caption" }, "Keep this set-up, then change the inputs: both stand side by side."),
      keep,
    ];
  }
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Set-ups side by side" },
      h(
        "table",
        { class: "compare" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td"),
            h("th", { scope: "col" }, "This one"),
            ...kept.map((_, i) =>
              h(
                "th",
                { scope: "col" },
                `Kept ${i + 1} `,
                h(
                  "button",
                  {
                    type: "button",
                    "data-key": `edit-${i}`,
                    "aria-label": `Edit kept set-up ${i + 1}`,
                    click: () => actions.edit(i),
                  },
                  "edit",
                ),
                " ",
                h(
                  "button",
                  {
                    type: "button",
                    "data-key": `drop-${i}`,
                    "aria-label": `Drop kept set-up ${i + 1}`,
                    click: () => actions.drop(i),
                  },
                  "drop",
                ),
              ),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          ...ROWS.map(([name, cell], row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, name),
              h("td", {}, cell(shown)),
              ...kept.map((it) =>
                h("td", {}, "answer" in it ? cell(it.answer) : row === 0 ? it.problem : ""),
              ),
            ),
          ),
        ),
      ),
    ),
    keep,
  ];
}
