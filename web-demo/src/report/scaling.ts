/** What more machines bring: throughput over their number, with the knee. */
import type { EstimateAnswer, Scaling } from "shardwise";
import { behind } from "../charts/behind";
import { plot } from "../charts/plot";
import { h } from "../dom";
import * as format from "../format";

export function scaling(
  curve: Scaling | null,
  shown: EstimateAnswer,
  scaleTo: (nodes: number) => void,
): HTMLElement[] {
  const points = curve?.points ?? [];
  const [first] = points;
  if (!curve || !first) return [h("p", {}, "Nothing fits on any count of these machines that was tried.")];
  const rate = first.tokens_per_second / first.gpus;
  const to = Math.max(...points.map((p) => p.gpus)) * 1.08;
  const top = Math.max(...points.map((p) => p.tokens_per_second), rate * to);
  const knee = points.find((p) => p.gpus === curve.knee);
  const past = knee && points[points.indexOf(knee) + 1];
  const said = [
    knee
      ? `The knee is at ${format.count(knee.gpus)} GPUs, where the curve lies highest above the line between its ends.`
      : "No knee as far as was tried.",
    past?.marginal == null
      ? ""
      : ` From there to ${format.count(past.gpus)} each GPU more brings ${format.percent(past.marginal)} of what one of the first brought.`,
    curve.half === null
      ? ""
      : ` Past ${format.count(curve.half)} GPUs one more brings less than half of that.`,
  ].join("");
  return [
    h(
      "p",
      { class: "caption" },
      `${said} The thin line would be no loss at all. Choose a mark to take that many.`,
    ),
    plot({
      label: "Tokens per second over GPUs; arrows walk, Enter takes that many",
      x: {
        name: "GPUs",
        from: 0,
        to,
        format: format.count,
        at: apart(
          points.map((p) => p.gpus),
          to,
        ),
      },
      y: { name: "Tokens/s", from: 0, to: top * 1.05, format: format.short },
      lines: [
        {
          class: "ideal",
          through: [
            [0, 0],
            [to, rate * to],
          ],
        },
        {
          class: "curve",
          through: [[0, 0], ...points.map((p): [number, number] => [p.gpus, p.tokens_per_second])],
        },
      ],
      notes: knee ? [{ x: knee.gpus, y: knee.tokens_per_second, text: "knee" }] : [],
      marks: points.map((p) => ({
        x: p.gpus,
        y: p.tokens_per_second,
        shape: p === knee ? ("ring" as const) : ("dot" as const),
        radius: p === knee ? 7 : 5,
        chosen: p.nodes === shown.cluster.nodes,
        label: `${format.count(p.gpus)} GPUs, ${p.name}: ${format.count(p.tokens_per_second)} tokens/s, efficiency ${format.percent(p.efficiency)}. Choose to take that many.`,
        key: `curve-${p.nodes}`,
        choose: () => scaleTo(p.nodes),
      })),
    }),
    behind({
      name: "scaling",
      columns: ["GPUs", "Plan", "Step", "Tokens/s", "Efficiency", "Each GPU more", "Run", "Cost"],
      rows: () =>
        points.map((p) => [
          h(
            "button",
            { type: "button", "data-key": `row-nodes-${p.nodes}`, click: () => scaleTo(p.nodes) },
            format.count(p.gpus),
          ),
          p.name,
          format.seconds(p.step_time),
          format.count(p.tokens_per_second),
          format.percent(p.efficiency),
          p.marginal === null ? "" : format.percent(p.marginal),
          p.run_time === null ? "" : format.seconds(p.run_time),
          p.cost === null ? "" : format.usd(p.cost),
        ]),
    }),
  ];
}

/** Counts far enough from each other to be written side by side. */
function apart(counts: number[], to: number): number[] {
  const kept: number[] = [];
  for (const n of [...counts].reverse()) {
    if ((kept.at(-1) ?? Number.POSITIVE_INFINITY) - n > 0.09 * to) kept.push(n);
  }
  return kept.reverse();
}
