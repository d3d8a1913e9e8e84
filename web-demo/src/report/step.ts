/** The step as a line of time: compute, what communication is exposed, what idles; below it what hides. */
import type { EstimateAnswer } from "shardwise";
import { axis, bar, legend } from "../charts/bar";
import { h } from "../dom";
import * as format from "../format";
import { openStep } from "./figures";
import type { TermsDialog } from "./terms";

export function step(it: EstimateAnswer, dialog: TermsDialog): HTMLElement[] {
  const { time, hidden, remedies } = it.step;
  const parts = time.terms.filter((t) => t.amount > 0);
  const behind = hidden.terms.filter((t) => t.amount > 0);
  const scale = Math.max(time.total, hidden.total);
  const [unit, name] = unitOf(scale);
  const list = parts.map((t) => `${t.name} ${format.seconds(t.amount)}`).join(", ");
  return [
    h(
      "p",
      { class: "caption" },
      `${format.seconds(time.total)} for ${format.count(it.step.tokens)} tokens; largest beyond useful compute: ${it.step.bottleneck}.`,
    ),
    h(
      "div",
      { class: "chart" },
      bar({
        segments: parts,
        scale,
        label: `Step of ${format.seconds(time.total)}: ${list}`,
        format: format.seconds,
      }),
      behind.length > 0 &&
        h(
          "div",
          { class: "hidden-lane" },
          bar({
            segments: behind,
            scale,
            label: `Communication hidden behind compute: ${behind.map((t) => `${t.name} ${format.seconds(t.amount)}`).join(", ")}`,
            format: format.seconds,
            size: "small",
          }),
        ),
      axis(scale, unit, name),
    ),
    legend(
      [...parts, ...behind.map((t) => ({ ...t, aside: true, name: t.name }))].map((t) => t),
      time.total,
      format.seconds,
      (part, opener) => dialog.open(openStep(it, part), opener),
    ),
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

/** The unit in which an axis reads well. */
function unitOf(scale: number): [number, string] {
  if (scale >= 120) return [60, "min"];
  return scale >= 1 ? [1, "s"] : [1e-3, "ms"];
}
