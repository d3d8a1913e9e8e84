/** Why not the others, what would fit, and what was taken for granted. */
import type { EstimateAnswer, PlanAnswer } from "shardwise";
import { h } from "../dom";
import * as format from "../format";

export function whyNot(plan: PlanAnswer): HTMLElement[] {
  if (plan.rejected.length === 0) return [h("p", {}, "Every strategy that the search looked at fits.")];
  return [
    h(
      "ul",
      { class: "plain" },
      ...plan.rejected.map((r) =>
        h("li", {}, r.reason, r.shortfall ? `: ${format.bytes(r.shortfall)} too much` : ""),
      ),
    ),
  ];
}

export function nearestChanges(plan: PlanAnswer): HTMLElement[] {
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
