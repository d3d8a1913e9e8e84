/** The machines: a count and a name, or every figure in full. */
import type { Cluster } from "shardwise";
import { h, id } from "../dom";
import type { Store } from "../state";
import { type Control, faultLine, type Group } from "./control";

/** The same machines with another count of nodes, however they are given. */
export function withNodes(store: Store, nodes: number, cluster: Cluster): Record<string, string> {
  const text = store.get("cluster");
  if (text === "") return { "cluster.nodes": String(nodes) };
  const [, cloud = "", name = ""] = /^\s*([a-z]+\s*:)?\s*(?:\d+\s*x\s*){0,2}(.*)$/i.exec(text) ?? [];
  const each = cluster.instance ? "" : `${cluster.gpus_per_node}x`;
  return { cluster: `${cloud}${nodes === 1 && each !== "" ? "" : `${nodes}x`}${each}${name}` };
}
/** `8xH100` is a count and a name; `aws:8xH100` and `H100` are names. */
export function split(text: string): { count: string; name: string } {
  const parts = /^\s*(\d+)\s*x\s*(.*)$/i.exec(text);
  return parts ? { count: parts[1] ?? "", name: parts[2] ?? "" } : { count: "", name: text };
}

/** The same machines as an object, to change single figures of. */
export function inFull(cluster: Cluster | undefined): Record<string, string> {
  if (!cluster)
    return { "cluster.accelerator": "h100-sxm", "cluster.nodes": "1", "cluster.gpus_per_node": "8" };
  const named = cluster.instance
    ? {
        "cluster.instance": cluster.instance,
        ...(cluster.region ? { "cluster.region": cluster.region } : {}),
      }
    : { "cluster.accelerator": cluster.accelerator, "cluster.gpus_per_node": String(cluster.gpus_per_node) };
  return { ...named, "cluster.nodes": String(cluster.nodes) };
}

/** `resolved` is what the core last made of the machines; `fields` are those of machines in full. */
export function machinesControl(
  store: Store,
  list: string | undefined,
  resolved: () => Cluster | undefined,
  fields: Group,
): Control {
  const line = faultLine();
  const count = h("input", {
    type: "text",
    inputmode: "numeric",
    id: id("count"),
    "data-path": "cluster",
    autocomplete: "off",
    "aria-label": "How many accelerators or instances",
    "aria-describedby": "cluster-help",
  });
  const name = h("input", {
    type: "search",
    id: id("machine"),
    "data-path": "cluster",
    list: list ?? null,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "cluster-help",
  });
  const say = () =>
    store.set({ cluster: count.value.trim() === "" ? name.value : `${count.value.trim()}x${name.value}` });
  count.addEventListener("input", say);
  name.addEventListener("input", say);

  const byName = mode("By name");
  const full = mode("In full");
  const nameRow = h(
    "div",
    { class: "field wide" },
    h("label", { for: name.id }, "Count × accelerator or cloud instance"),
    h("div", { class: "entry machines" }, count, h("span", { "aria-hidden": "true" }, "×"), name),
    h(
      "span",
      { class: "help", id: "cluster-help" },
      "As h100-sxm or p5.48xlarge@us-east-1; 2 × 8xA100-SXM4-80GB is two nodes of eight",
    ),
  );
  byName.input.addEventListener("change", () => {
    const it = resolved();
    store.clear("cluster");
    store.set({
      cluster: it
        ? `${it.nodes > 1 ? `${it.nodes}x` : ""}${it.instance ?? `${it.gpus_per_node}x${it.accelerator}`}`
        : "8xh100-sxm",
    });
  });
  full.input.addEventListener("change", () => {
    const fields = inFull(resolved());
    store.set({ cluster: "", ...fields });
  });

  const own = h("input", {
    type: "text",
    inputmode: "decimal",
    id: id("own-price"),
    placeholder: "not given",
    autocomplete: "off",
    "aria-describedby": "own-price-help",
  });
  const ownPath = () => `cluster.price.${store.get("run.price") || "on_demand"}`;
  own.addEventListener("input", () => {
    const named = store.get("cluster") !== "";
    store.set({ ...(named ? { cluster: "", ...inFull(resolved()) } : {}), [ownPath()]: own.value });
  });
  const priceRow = h(
    "div",
    { class: "field wide own-price" },
    h("label", { for: own.id }, "Own price"),
    h("div", { class: "entry" }, own, h("span", { class: "unit" }, "USD/h a GPU")),
    h(
      "span",
      { class: "help", id: "own-price-help" },
      "Takes the place of the catalogue's price of the chosen kind",
    ),
  );

  return {
    path: "cluster",
    element: h(
      "div",
      { class: "choice" },
      h(
        "fieldset",
        { class: "modes" },
        h("legend", { class: "visually-hidden" }, "The machines are given"),
        byName.label,
        full.label,
      ),
      nameRow,
      priceRow,
      fields.element,
      line.element,
    ),
    show() {
      const text = store.get("cluster");
      const price = store.get(ownPath());
      if (own.value !== price) own.value = price;
      const isFull = text === "" && store.has("cluster");
      byName.input.checked = !isFull;
      full.input.checked = isFull;
      nameRow.hidden = isFull;
      fields.element.hidden = !isFull;
      if (isFull) fields.controls();
      const parts = split(text);
      if (
        `${count.value.trim()}x${name.value}` === text ||
        (count.value.trim() === "" && name.value === text)
      )
        return;
      count.value = parts.count;
      name.value = parts.name;
    },
    fault: (message) => line.show(message, [count, name]),
    focus: () => (nameRow.hidden ? fields.controls()[0] : name)?.focus(),
  };
}

function mode(text: string): { input: HTMLInputElement; label: HTMLLabelElement } {
  const input = h("input", { type: "radio", name: "machines-mode", id: id("mode") });
  return { input, label: h("label", { for: input.id }, input, h("span", {}, text)) };
}
