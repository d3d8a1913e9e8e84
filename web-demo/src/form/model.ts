/** The model: a preset by name, or a config pasted, dropped or written by hand. */
import { h, id } from "../dom";
import { LONGEST_CONFIG } from "../request";
import type { Store } from "../state";
import { type Control, faultLine } from "./control";

/** Dimensions to start one's own model from, in the core's words for them. */
const BY_HAND = {
  model_type: "dimensions",
  name: "my model",
  hidden: 4096,
  layers: 32,
  heads: 32,
  kv_heads: 8,
  ffn: 14336,
  vocab: 128256,
};

/** What can be said of a model by hand: the config's key, and its label. */
const DIMENSIONS: [string, string][] = [
  ["hidden", "Hidden size"],
  ["layers", "Layers"],
  ["heads", "Heads"],
  ["kv_heads", "Key-value heads"],
  ["ffn", "Feed-forward size"],
  ["vocab", "Vocabulary"],
  ["experts", "Experts"],
  ["top_k", "Experts per token"],
];

export function modelControl(store: Store, presetList: string, help: string): Control {
  const line = faultLine();
  const named = h("input", {
    type: "search",
    id: id("model"),
    "data-path": "model",
    list: presetList,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "model-help",
  });
  const config = h("textarea", {
    id: id("config"),
    "data-path": "model",
    rows: 9,
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "config-help",
  });
  const file = h("input", {
    type: "file",
    id: id("file"),
    accept: ".json,application/json",
    class: "visually-hidden",
  });
  const byName = mode("Name");
  const byConfig = mode("Config");
  const byHand = mode("By hand");
  const dimensions = DIMENSIONS.map(([key, label]) => {
    const input = h("input", {
      type: "text",
      inputmode: "numeric",
      id: id(`dimension-${key}`),
      "data-dimension": key,
      autocomplete: "off",
      placeholder: key === "experts" || key === "top_k" ? "none" : null,
    });
    input.addEventListener("input", () => {
      const next: Record<string, unknown> = { ...ownDimensions(store.get("model")) };
      const value = Number(input.value);
      if (input.value.trim() === "") delete next[key];
      else next[key] = Number.isFinite(value) ? value : input.value;
      say(JSON.stringify(next));
    });
    return { key, input, element: h("div", { class: "field" }, h("label", { for: input.id }, label), input) };
  });
  const handRow = h("div", { class: "fields" }, ...dimensions.map((d) => d.element));
  const nameRow = h(
    "div",
    { class: "field wide" },
    h("label", { for: named.id }, "Preset or Hub id"),
    named,
    h("span", { class: "help", id: "model-help" }, help),
  );
  const configRow = h(
    "div",
    { class: "field wide" },
    h("label", { for: config.id }, "Hugging Face config.json"),
    config,
    h("span", { class: "help", id: "config-help" }, "Paste the file, or drop it anywhere on the page."),
    h("div", { class: "row" }, file, h("label", { for: file.id, class: "button" }, "Open a file")),
  );
  const element = h(
    "div",
    { class: "choice" },
    h(
      "fieldset",
      { class: "modes" },
      h("legend", { class: "visually-hidden" }, "The model is given"),
      byName.label,
      byConfig.label,
      byHand.label,
    ),
    nameRow,
    configRow,
    handRow,
    line.element,
  );
  /** The name that stood before a config took its place. */
  let lastName = store.get("model");

  function say(text: string): void {
    store.set({ model: text });
  }
  /** Refuses what no config is, before it weighs on anything; the field keeps what it held. */
  function refuse(what: string, size: number): void {
    config.value = store.get("model");
    const [got, most] = [size, LONGEST_CONFIG].map((n) => n.toLocaleString("en-US"));
    line.show(`model: got a ${what} of ${got} bytes; allowed: a config of at most ${most}`, [config, named]);
  }
  async function open(chosen: File | undefined): Promise<void> {
    if (!chosen) return;
    if (chosen.size > LONGEST_CONFIG) refuse("file", chosen.size);
    else say(asConfig(await chosen.text()));
  }

  named.addEventListener("input", () => say(named.value));
  config.addEventListener("input", () => {
    if (config.value.length > LONGEST_CONFIG) refuse("text", config.value.length);
    else say(asConfig(config.value));
  });
  file.addEventListener("change", () => void open(file.files?.[0]));
  byName.input.addEventListener("change", () => say(lastName));
  byConfig.input.addEventListener("change", () => {
    // Spread over lines it is a config to write in; on one line, dimensions of the fields.
    say(config.value || JSON.stringify(ownDimensions(store.get("model")) ?? BY_HAND, null, 1));
  });
  byHand.input.addEventListener("change", () => say(JSON.stringify(BY_HAND)));
  document.addEventListener("dragover", (e) => {
    if (e.dataTransfer?.types.includes("Files")) e.preventDefault();
  });
  document.addEventListener("drop", (e) => {
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    void open(e.dataTransfer.files[0]);
  });

  return {
    path: "model",
    element,
    show() {
      const text = store.get("model");
      const own = ownDimensions(text);
      const isConfig = text.trimStart().startsWith("{") && !own;
      const isName = !isConfig && !own;
      if (isName && text !== "") lastName = text;
      byName.input.checked = isName;
      byConfig.input.checked = isConfig;
      byHand.input.checked = own !== undefined;
      nameRow.hidden = !isName;
      configRow.hidden = !isConfig;
      handRow.hidden = !own;
      for (const { key, input } of dimensions) {
        const value = own?.[key] === undefined ? "" : String(own[key]);
        if (input.value !== value) input.value = value;
      }
      if (own) return;
      const target = isConfig ? config : named;
      if (target.value !== text) target.value = text;
    },
    fault: (message) => line.show(message, [named, config, ...dimensions.map((d) => d.input)]),
    focus: () => [named, config, dimensions[0]?.input].find((it) => it?.checkVisibility())?.focus(),
  };
}

/** The dimensions that a model's text holds, if it is one that the fields can show. */
function ownDimensions(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{"model_type":"dimensions"') || text.length > 2000) return undefined;
  try {
    const it = JSON.parse(text) as Record<string, unknown>;
    const known = ["model_type", "name", ...DIMENSIONS.map(([key]) => key)];
    const shown = Object.entries(it).every(
      ([key, value]) => known.includes(key) && typeof value !== "object",
    );
    return shown && JSON.stringify(it) === text ? it : undefined;
  } catch {
    return undefined;
  }
}

/** A text meant as a config stays one while it is being written. */
function asConfig(text: string): string {
  return text.trimStart().startsWith("{") ? text : `{${text}`;
}

function mode(text: string): { input: HTMLInputElement; label: HTMLLabelElement } {
  const input = h("input", { type: "radio", name: "model-mode", id: id("mode") });
  return { input, label: h("label", { for: input.id }, input, h("span", {}, text)) };
}
