/** Names to choose from while typing: presets from the schema, machines from the catalogue. */
import type { CatalogRows } from "shardwise";
import { h } from "./dom";
import type { Suggest } from "./form/control";
import { outcome, type Planner } from "./planner";

export interface Suggestions {
  element: HTMLElement;
  suggest: Suggest;
  /** Asks the catalogue, until it has answered. */
  fill(planner: Planner): void;
}

const LISTS: Record<string, string> = {
  model: "presets",
  cluster: "machines",
  "cluster.accelerator": "accelerators",
  "cluster.instance": "instances",
  "cluster.link": "links",
  "cluster.networks.0.link": "links",
  "cluster.cloud": "clouds",
};

export function suggestions(presets: string[]): Suggestions {
  const lists = Object.fromEntries(
    [...new Set(Object.values(LISTS))].map((name) => [name, h("datalist", { id: name })]),
  );
  const put = (list: string, rows: { value: string; label: string }[]) => {
    lists[list]?.replaceChildren(...rows.map(({ value, label }) => h("option", { value }, label)));
  };
  let filled = false;
  return {
    element: h("div", { hidden: true }, ...Object.values(lists)),
    suggest: (path) => LISTS[path],
    fill(planner) {
      if (filled) return;
      put(
        "presets",
        presets.map((value) => ({ value, label: "" })),
      );
      planner.ask([{ verb: "catalog", request: "{}" }], ([text]) => {
        const read = outcome<CatalogRows>(text ?? "");
        if ("error" in read) return;
        filled = true;
        const { accelerators = [], instances = [], links = [] } = read.answer;
        const parts = accelerators.map((a) => ({
          value: a.id,
          label: `${a.vendor} ${a.name}, ${a.memory_gb} GB`,
        }));
        const shapes = new Map(
          instances.map((i) => [i.name, { value: i.name, label: `${i.cloud}: ${i.gpus} × ${i.gpu}` }]),
        );
        put("accelerators", parts);
        put("instances", [...shapes.values()]);
        put("machines", [...parts, ...shapes.values()]);
        put(
          "links",
          links.map((l) => ({ value: l.id, label: l.name })),
        );
        put(
          "clouds",
          [...new Set(instances.map((i) => i.cloud))].map((value) => ({ value, label: "" })),
        );
      });
    },
  };
}
