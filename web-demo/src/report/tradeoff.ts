/** Time against money: the plans of which none betters another, and the best on other counts of machines. */
import type { CurvePoint, EstimateAnswer, PlanAnswer, PlanLine } from "shardwise";
import { behind } from "../charts/behind";
import { type Mark, plot, span } from "../charts/plot";
import { h } from "../dom";
import * as format from "../format";
import { describe, same } from "./plans";

export interface TradeoffActions {
  /** Makes a plan the person's own, on its machines. */
  adopt(line: PlanLine): void;
  /** Takes another count of nodes. */
  scaleTo(nodes: number): void;
}

/** Whether other counts of machines are drawn too; it outlives the drawing. */
let withOthers = true;

// Undisturbed, which every plan and every count of machines has.
const time = (p: PlanLine): number => p.run_time ?? p.step_time;
const money = (p: PlanLine): number | undefined => p.cost ?? undefined;

export function tradeoff(
  plan: PlanAnswer,
  shown: EstimateAnswer,
  points: CurvePoint[],
  actions: TradeoffActions,
  redraw: () => void,
): HTMLElement[] {
  const behindFront = plan.ranked.filter(
    (p) => !plan.front.some((f) => same(f.layout, p.layout) && f.machines === p.machines),
  );
  const lines = [...plan.front, ...behindFront];
  if (lines.length === 0) return [h("p", {}, "No layout fits.")];
  const priced = lines.every((p) => money(p) !== undefined);
  const up = (p: PlanLine) => (priced ? (money(p) ?? 0) : p.headroom / 2 ** 30);
  const reachable = priced
    ? points.filter((p) => p.run_time !== null && p.cost !== null && p.nodes !== shown.cluster.nodes)
    : [];
  const elsewhere = withOthers ? reachable : [];
  const others = h("input", { type: "checkbox", id: "with-others", "data-key": "with-others" });
  others.checked = withOthers;
  others.addEventListener("change", () => {
    withOthers = others.checked;
    redraw();
  });
  const most = Math.max(...lines.map((p) => p.headroom), 1);
  const marks: Mark[] = [
    ...elsewhere.map(
      (p): Mark => ({
        x: p.run_time ?? 0,
        y: p.cost ?? 0,
        shape: "square",
        radius: 4.5,
        label: `${format.count(p.gpus)} GPUs, ${p.name}: ${format.seconds(p.run_time ?? 0)}, ${format.usd(p.cost ?? 0)}. Choose to take that many.`,
        key: `point-nodes-${p.nodes}`,
        choose: () => actions.scaleTo(p.nodes),
      }),
    ),
    ...lines.map(
      (p, i): Mark => ({
        x: time(p),
        y: up(p),
        shape: i < plan.front.length ? "dot" : "ring",
        radius: 4 + 4 * Math.sqrt(Math.max(0, p.headroom) / most),
        chosen:
          same(p.layout, shown.layout) &&
          time(p) === time(lines.find((l) => same(l.layout, shown.layout)) ?? p),
        label: `${describe(p)}: ${format.seconds(time(p))}${priced ? `, ${format.usd(up(p))}` : ""}, ${format.bytes(p.headroom)} free. Choose to adopt it.`,
        key: `point-${i}`,
        choose: () => actions.adopt(p),
      }),
    ),
  ];
  const run = lines[0]?.run_time != null;
  const scale = format.timeScale(Math.max(...marks.map((m) => m.x)));
  return [
    h(
      "p",
      { class: "caption" },
      `Filled: no other is as good in time, ${priced ? "money and memory left" : "and memory left"} and better in one; the larger, the more memory is left. Choose a mark to take it.`,
    ),
    plot({
      label: `Plans by time and ${priced ? "money" : "memory left"}; arrows walk, Enter adopts`,
      x: {
        name: run ? (shown.run?.outlook ? "Run, undisturbed" : "Run") : "Step",
        format: scale.format,
        unit: scale.unit,
        ...span(
          marks.map((m) => m.x),
          false,
        ),
      },
      y: priced
        ? {
            name: "Cost",
            format: format.usdMark,
            ...span(
              marks.map((m) => m.y),
              false,
            ),
          }
        : {
            name: "Memory left",
            format: (v) => `${v.toFixed(0)} GiB`,
            ...span(
              marks.map((m) => m.y),
              true,
            ),
          },
      marks,
      lines: [],
    }),
    ...(reachable.length > 0
      ? [
          h(
            "p",
            { class: "key option" },
            others,
            h("label", { for: others.id }, "With the best plans on other counts of machines (squares)"),
          ),
        ]
      : []),
    behind({
      name: "time and money",
      columns: ["Plan", "On the front", run ? "Run" : "Step", "Cost", "Memory free"],
      rows: () =>
        lines.map((p, i) => [
          h("button", { type: "button", "data-key": `row-${i}`, click: () => actions.adopt(p) }, describe(p)),
          i < plan.front.length ? "yes" : "no",
          format.seconds(time(p)),
          money(p) === undefined ? "unknown" : format.usd(money(p) ?? 0),
          format.bytes(p.headroom),
        ]),
    }),
  ];
}
