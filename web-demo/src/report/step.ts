/** The step as a line of time: compute, what communication is exposed, what idles; below it what hides. */
import type { EstimateAnswer } from "shardwise";
import { axis, bar, legend } from "../charts/bar";
import { behind } from "../charts/behind";
import { h } from "../dom";
import * as format from "../format";
import { openStep } from "./figures";
import { schedule } from "./schedule";
import type { TermsDialog } from "./terms";

/** What a rank does in a part of the step. What is not named is communication. */
const KINDS: [string, (name: string) => boolean][] = [
  [
    "compute",
    (name) =>
      /^(forward|backward|recompute|casts|dequantise|kernel gaps|host|optimizer|gradient accumulation)/.test(
        name,
      ),
  ],
  ["bubble", (name) => name === "pipeline bubble"],
  ["stall", (name) => /^(input|straggler)/.test(name)],
  ["exposed communication", () => true],
];

export function step(it: EstimateAnswer, dialog: TermsDialog): Element[] {
  const { time, hidden, remedies } = it.step;
  const order = KINDS.map(([kind]) => kind);
  const kindOf = (name: string) => KINDS.find(([, is]) => is(name))?.[0] ?? "";
  const parts = time.terms
    .filter((t) => t.amount > 0)
    .sort((a, b) => order.indexOf(kindOf(a.name)) - order.indexOf(kindOf(b.name)));
  const kinds = ["compute", "exposed communication", "bubble", "stall"].map((kind) => ({
    kind,
    amount: parts.filter((t) => kindOf(t.name) === kind).reduce((sum, t) => sum + t.amount, 0),
  }));
  const behindCompute = hidden.terms.filter((t) => t.amount > 0);
  const scale = Math.max(time.total, hidden.total, it.step.interval80.high);
  const { unit, name } = format.timeScale(scale);
  const list = parts.map((t) => `${t.name} ${format.seconds(t.amount)}`).join(", ");
  return [
    h(
      "p",
      { class: "caption" },
      `${format.seconds(time.total)} for ${format.count(it.step.tokens)} tokens: ${kinds.map(({ kind, amount }) => `${kind} ${format.percent(amount / time.total)}`).join(", ")}. Largest beyond useful compute: ${it.step.bottleneck}.`,
    ),
    h(
      "div",
      { class: "chart" },
      bar({
        segments: parts,
        scale,
        label: `Step of ${format.seconds(time.total)}: ${list}`,
        format: format.seconds,
        interval: it.step.interval80,
      }),
      behindCompute.length > 0 &&
        h(
          "div",
          { class: "hidden-lane" },
          bar({
            segments: behindCompute,
            scale,
            label: `Communication hidden behind compute: ${behindCompute.map((t) => `${t.name} ${format.seconds(t.amount)}`).join(", ")}`,
            format: format.seconds,
            size: "small",
          }),
        ),
      axis(scale, unit, name),
    ),
    legend(
      [...parts, ...behindCompute.map((t) => ({ ...t, aside: true }))],
      time.total,
      format.seconds,
      (part, opener) => dialog.open(openStep(it, part), opener),
    ),
    behind({
      name: "step",
      columns: ["Part", "Kind", "Time", "Share"],
      rows: () => [
        ...parts.map((t) => [
          t.name,
          kindOf(t.name),
          format.seconds(t.amount),
          format.percent(t.amount / time.total),
        ]),
        ...behindCompute.map((t) => [t.name, "hidden", format.seconds(t.amount), ""]),
      ],
    }),
    ...(it.layout.pipeline_parallel > 1 ? schedule(it) : []),
    ...(remedies.length === 0
      ? []
      : [
          h("h3", {}, "What would help"),
          h(
            "ul",
            { class: "plain" },
            ...remedies.map((r) => h("li", {}, `${r.change}: ${format.seconds(r.saves)} less a step`)),
          ),
        ]),
  ];
}
