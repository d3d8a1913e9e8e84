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
  const byName = mode("By name");
  const byConfig = mode("By config");
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
    h(
      "div",
      { class: "row" },
      file,
      h("label", { for: file.id, class: "button" }, "Open a file"),
      h(
        "button",
        { type: "button", click: () => say(JSON.stringify(BY_HAND, null, 1)) },
        "Dimensions by hand",
      ),
    ),
  );
  const element = h(
    "div",
    { class: "choice" },
    h("fieldset", { class: "modes" }, h("legend", {}, "Given"), byName.label, byConfig.label),
    nameRow,
    configRow,
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
  byConfig.input.addEventListener("change", () => say(JSON.stringify(BY_HAND, null, 1)));
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
      const isConfig = text.trimStart().startsWith("{");
      if (!isConfig && text !== "") lastName = text;
      byName.input.checked = !isConfig;
      byConfig.input.checked = isConfig;
      nameRow.hidden = isConfig;
      configRow.hidden = !isConfig;
      const target = isConfig ? config : named;
      if (target.value !== text) target.value = text;
    },
    fault: (message) => line.show(message, [named, config]),
    focus: () => (nameRow.hidden ? config : named).focus(),
  };
}

/** A text meant as a config stays one while it is being written. */
function asConfig(text: string): string {
  return text.trimStart().startsWith("{") ? text : `{${text}`;
}

function mode(text: string): { input: HTMLInputElement; label: HTMLLabelElement } {
  const input = h("input", { type: "radio", name: "model-mode", id: id("mode") });
  return { input, label: h("label", { for: input.id }, input, h("span", {}, text)) };
}
