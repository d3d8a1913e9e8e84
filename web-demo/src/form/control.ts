/** One field of a request as the platform's own control, made from its schema. */
import { h, id } from "../dom";
import type { Field } from "../schema";
import { field } from "../schema";
import type { Store } from "../state";

/** What the page can do with a control, whichever kind it is. */
export interface Control {
  path: string;
  element: HTMLElement;
  /** Shows what the state says. */
  show(): void;
  /** Shows the core's words beside the field, or takes them away. */
  fault(message: string): void;
  focus(): void;
}

/** Fields whose controls are made when they are first wanted: most people never open most of them. */
export interface Group {
  paths: string[];
  element: HTMLElement;
  controls(): Control[];
}

export function group(paths: string[], make: (path: string) => Control): Group {
  const element = h("div", { class: "fields" });
  let made: Control[] | undefined;
  return {
    paths,
    element,
    controls() {
      if (!made) {
        made = paths.map(make);
        element.append(...made.map((c) => c.element));
      }
      return made;
    },
  };
}

/** Names that help to fill a field, by the id of a `datalist`. */
export type Suggest = (path: string) => string | undefined;

export function control(path: string, store: Store, suggest: Suggest): Control {
  const it = field(path);
  if (!it) throw new Error(`The schema has no field ${path}.`);
  return it.kind === "choices" ? checklist(it, store) : single(it, store, suggest(path));
}

/** The line of help: what the field is, its unit and limits. */
export function helpText(it: Field): string {
  const limits =
    it.minimum !== undefined && it.maximum !== undefined
      ? `${it.minimum.toLocaleString("en-US")} to ${it.maximum.toLocaleString("en-US")}`
      : "";
  const help = it.help === it.label ? "" : it.help;
  return limits === "" ? help : `${help} (${limits})`;
}

/** The place beside a field where the core's words appear. */
export function faultLine(): { element: HTMLElement; show(message: string, inputs: Element[]): void } {
  const element = h("p", { class: "fault", id: id("fault"), hidden: true });
  return {
    element,
    show(message, inputs) {
      if (element.textContent === message) return;
      element.textContent = message;
      element.hidden = message === "";
      for (const input of inputs) {
        const told = (input.getAttribute("aria-describedby") ?? "").replace(` ${element.id}`, "");
        input.setAttribute("aria-describedby", message === "" ? told : `${told} ${element.id}`);
        if (message === "") input.removeAttribute("aria-invalid");
        else input.setAttribute("aria-invalid", "true");
      }
    },
  };
}

function single(it: Field, store: Store, list: string | undefined): Control {
  const key = id(it.path);
  const help = h("span", { class: "help", id: `${key}-help` }, helpText(it));
  const shared = { id: key, "aria-describedby": help.id, "data-path": it.path };
  const input =
    it.kind === "choice"
      ? select(it, shared)
      : it.kind === "flag"
        ? flag(it, shared)
        : text(it, shared, list);
  const label = h("label", { for: key }, it.label);
  const line = faultLine();
  const box = input instanceof HTMLInputElement && input.type === "checkbox";
  const said = () => (box ? String((input as HTMLInputElement).checked) : input.value);
  input.addEventListener("input", () => {
    const value = said();
    const usual = value === it.default && (box || it.kind === "choice");
    store.set({ [it.path]: usual ? "" : value });
  });
  const unit = it.unit === "" ? null : h("span", { class: "unit" }, it.unit);
  const wide = it.kind === "choice" || it.kind === "words" || it.kind === "text" || it.help.length > 60;
  return {
    path: it.path,
    element: h(
      "div",
      { class: `field ${box ? "field-flag" : ""} ${wide ? "wide" : ""}` },
      label,
      h("div", { class: "entry" }, input, unit),
      help,
      line.element,
    ),
    show() {
      const value = store.get(it.path);
      if (box) (input as HTMLInputElement).checked = (value || it.default) === "true";
      else if (input instanceof HTMLSelectElement) choose(input, value || (it.optional ? "" : it.default));
      else if (input.value !== value) input.value = value;
    },
    fault: (message) => line.show(message, [input]),
    focus: () => input.focus(),
  };
}

/** Chooses an option; a word that is none is added, so that the core's objection to it makes sense. */
function choose(select: HTMLSelectElement, value: string): void {
  if (![...select.options].some((option) => option.value === value)) {
    select.append(h("option", { value }, value));
  }
  select.value = value;
}

function select(it: Field, shared: Record<string, string>): HTMLSelectElement {
  const unsaid = it.optional ? [h("option", { value: "" }, "not given")] : [];
  const said = it.options.map(({ value, help }) =>
    h("option", { value }, help === "" ? value : `${value} — ${help}`),
  );
  return h("select", shared, ...unsaid, ...said);
}

/** Yes or no; with a third answer where the core decides when nothing is said. */
function flag(it: Field, shared: Record<string, string>): HTMLSelectElement | HTMLInputElement {
  if (!it.optional) return h("input", { ...shared, type: "checkbox" });
  return h(
    "select",
    shared,
    h("option", { value: "" }, "not given"),
    h("option", { value: "true" }, "yes"),
    h("option", { value: "false" }, "no"),
  );
}

function text(it: Field, shared: Record<string, string>, list: string | undefined): HTMLInputElement {
  const numeric = it.kind === "integer" || it.kind === "number";
  return h("input", {
    ...shared,
    type: "text",
    inputmode: it.kind === "integer" ? "numeric" : numeric ? "decimal" : null,
    placeholder: it.default || (it.optional ? "not given" : null),
    list: list ?? null,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
  });
}

/** Several of a few words: a box for each. None ticked leaves the choice open. */
function checklist(it: Field, store: Store): Control {
  const key = id(it.path);
  const line = faultLine();
  const boxes = it.options.map(({ value, help }) => ({
    value,
    box: h("input", {
      type: "checkbox",
      id: id(`${it.path}-${value}`),
      "data-path": it.path,
      "data-value": value,
    }),
    help,
  }));
  const listed = () =>
    store
      .get(it.path)
      .split(",")
      .filter((word) => word !== "");
  for (const { box } of boxes) {
    box.addEventListener("input", () => {
      const on = boxes.filter((b) => b.box.checked).map((b) => b.value);
      store.set({ [it.path]: on.join(",") });
    });
  }
  return {
    path: it.path,
    element: h(
      "fieldset",
      { class: "field wide", "aria-describedby": key },
      h("legend", {}, it.label),
      h("span", { class: "help", id: key }, it.help),
      h(
        "div",
        { class: "boxes" },
        ...boxes.map(({ value, box, help }) => h("label", { for: box.id, title: help }, box, " ", value)),
      ),
      line.element,
    ),
    show() {
      const on = listed();
      for (const { value, box } of boxes) box.checked = on.includes(value);
    },
    fault: (message) =>
      line.show(
        message,
        boxes.map((b) => b.box),
      ),
    focus: () => boxes[0]?.box.focus(),
  };
}
