/** Why not the others, what would fit, and what was taken for granted. */
import type { EstimateAnswer, Layout, PlanAnswer, Rejection } from "shardwise";
import { fold } from "../charts/behind";
import { h } from "../dom";
import * as format from "../format";

/** Strategies, the layouts asked about, and layouts one change away: each with its sentence. */
export function whyNot(
  plan: PlanAnswer,
  adopt: (layout: Layout) => void,
  askAbout: () => void,
): HTMLElement[] {
  const list = (rejections: Rejection[], stem: string) =>
    h("ul", { class: "plain" }, ...rejections.map((r, i) => reason(r, `${stem}-${i}`, adopt)));
  return [
    ...(plan.why_not.length > 0 ? [h("h3", {}, "Asked about"), list(plan.why_not, "asked")] : []),
    h("h3", {}, "Strategies"),
    plan.rejected.length === 0
      ? h("p", {}, "Every strategy that the search looked at fits.")
      : list(plan.rejected, "rejected"),
    ...(plan.neighbours.length > 0
      ? [
          fold("near", `One change away from the best (${plan.neighbours.length})`, () =>
            list(plan.neighbours, "near"),
          ),
        ]
      : []),
    h(
      "button",
      { type: "button", "data-key": "ask-about", class: "ask-about", click: askAbout },
      "Ask about another layout",
    ),
  ];
}

/** One sentence. What only lacks memory can be looked at as if it fitted. */
function reason(r: Rejection, key: string, adopt: (layout: Layout) => void): HTMLElement {
  const short = r.shortfall ? `: ${format.bytes(r.shortfall)} too much` : "";
  const looked =
    r.rule === null &&
    h(
      "button",
      {
        type: "button",
        class: "link",
        "data-key": key,
        "aria-label": `Look at ${r.name}`,
        click: () => adopt(r.layout),
      },
      "look",
    );
  return h("li", {}, r.reason.startsWith(r.name) ? "" : `${r.name}: `, r.reason, short, " ", looked);
}

export function nearestChanges(plan: PlanAnswer): HTMLElement[] {
  if (plan.nearest_changes.length === 0) {
    return [
      h("p", {}, "No change that was tried makes it fit: more machines, larger ones, or a smaller model."),
    ];
  }
  return [h("ul", { class: "plain" }, ...plan.nearest_changes.map((change) => h("li", {}, change)))];
}

export function assumptions(it: EstimateAnswer): HTMLElement[] {
  if (it.assumptions.length === 0)
    return [h("p", {}, "Nothing was assumed: every field that matters was given.")];
  return [
    h(
      "dl",
      { class: "assumptions" },
      ...it.assumptions.flatMap((a) => [
        h("dt", {}, h("code", {}, a.field)),
        h("dd", {}, h("strong", {}, a.value), h("span", {}, ` ${a.why}`)),
      ]),
    ),
  ];
}

/** The model in one line, under its field. */
export function modelLine({ model }: EstimateAnswer): string {
  const { total, active, layers } = model.parameters;
  const sparse = active < total ? `, ${format.short(active)} active` : "";
  return `${model.family}: ${format.short(total)} parameters (${format.count(total)})${sparse}, ${layers} layers, hidden ${format.count(model.hidden)}, vocabulary ${format.count(model.vocabulary)}`;
}

/** The machines in one line, under their field. */
export function machinesLine({ cluster }: EstimateAnswer): string {
  const nodes = cluster.nodes > 1 ? `${format.count(cluster.nodes)} nodes × ` : "";
  const inside = cluster.within_domain
    ? `, ${cluster.within_domain.link} ${format.gbPerSecond(cluster.within_domain.bandwidth)}`
    : "";
  const network = cluster.networks.at(-1);
  const between = network
    ? `, ${network.channel.link} ${format.gbPerSecond(network.channel.bandwidth)} a node`
    : "";
  const offer = cluster.prices.offer === "" ? "" : `; prices of ${cluster.prices.offer}`;
  return `${nodes}${cluster.gpus_per_node} × ${cluster.accelerator}, ${format.bytes(cluster.memory)} usable each${inside}${between}${offer}`;
}
