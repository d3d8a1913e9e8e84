/** Two or three set-ups side by side: the one being edited, and those kept, as the core compares them. */
import type { CompareAnswer, CompareLine, Unit } from "shardwise";
import { h } from "../dom";
import * as format from "../format";
import type { State } from "../state";
import { MARKS } from "./verdict";

/** What the core says of the set-ups side by side, or why it says nothing. */
export type Compared = { answer: CompareAnswer } | { problem: string };

export interface CompareActions {
  keep(): void;
  /** Changes places with the set-up being edited. */
  edit(index: number): void;
  drop(index: number): void;
}

export const MOST_KEPT = 2;

const FORMATS: Record<Unit, (amount: number) => string> = {
  bytes: format.bytes,
  seconds: format.seconds,
  usd: format.usd,
  count: format.count,
  share: format.percent,
};

/** Whether the terms of the sums are shown too; it outlives the table. */
let inFull = false;

export function compare(
  compared: Compared | undefined,
  states: State[],
  actions: CompareActions,
): HTMLElement[] {
  const kept = states.length - 1;
  const keep = h(
    "button",
    { type: "button", "data-key": "keep", disabled: kept >= MOST_KEPT, click: actions.keep },
    "Keep this set-up beside",
  );
  if (kept === 0) {
    return [
      h("p", { class: "caption" }, "Keep this set-up, then change the inputs: both stand side by side."),
      keep,
    ];
  }
  const answer = compared && "answer" in compared ? compared.answer : undefined;
  const table = h("table", { class: inFull ? "compare" : "compare short" }, head(kept, actions));
  if (answer) table.append(words(answer, states), ...figures(answer));
  const all = h("input", { type: "checkbox", id: "compare-all", "data-key": "compare-all" });
  all.checked = inFull;
  all.addEventListener("change", () => {
    inFull = all.checked;
    table.classList.toggle("short", !inFull);
  });
  return [
    ...(compared && "problem" in compared ? [h("p", { class: "fault" }, compared.problem)] : []),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Set-ups side by side" }, table),
    h("div", { class: "row" }, keep, h("label", { for: all.id, class: "row" }, all, "With every term")),
  ];
}

function head(kept: number, actions: CompareActions): HTMLElement {
  const button = (text: string, label: string, key: string, click: () => void) =>
    h("button", { type: "button", "data-key": key, "aria-label": label, click }, text);
  return h(
    "thead",
    {},
    h(
      "tr",
      {},
      h("td"),
      h("th", { scope: "col" }, "This one"),
      ...Array.from({ length: kept }, (_, i) =>
        h(
          "th",
          { scope: "col" },
          `Kept ${i + 1} `,
          button("edit", `Edit kept set-up ${i + 1}`, `edit-${i}`, () => actions.edit(i)),
          " ",
          button("drop", `Drop kept set-up ${i + 1}`, `drop-${i}`, () => actions.drop(i)),
        ),
      ),
    ),
  );
}

function words({ compared }: CompareAnswer, states: State[]): HTMLElement {
  const row = (name: string, cells: string[]) =>
    h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)));
  const said = (state: State, path: string) => {
    const text = state.get(path) ?? "";
    return Number.isFinite(Number(text)) ? format.count(Number(text)) : text;
  };
  return h(
    "tbody",
    {},
    row(
      "Model",
      compared.map((it) => it.model),
    ),
    row(
      "Machines",
      compared.map((it) => it.cluster),
    ),
    row(
      "Batch",
      states.map((state) => `${said(state, "global_batch")} × ${said(state, "seq_len")} tokens`),
    ),
    row(
      "Layout",
      compared.map((it) => it.layout),
    ),
    row(
      "Verdict",
      compared.map((it) => `${MARKS[it.verdict]} ${it.reason}`),
    ),
  );
}

/** Lines of figures; a line whose name begins with that of a sum is one of its terms. */
function figures({ lines }: CompareAnswer): HTMLElement[] {
  const cell = ({ unit, values, ratios }: CompareLine, i: number) => {
    const value = values[i];
    if (value == null) return h("td", { class: "number" }, "");
    const ratio = ratios[i];
    return h(
      "td",
      { class: "number" },
      FORMATS[unit](value),
      i > 0 && ratio != null && ratio !== 1 && h("span", { class: "ratio" }, ` ×${ratio.toFixed(2)}`),
    );
  };
  return [
    h(
      "tbody",
      {},
      ...lines.map((line) => {
        const [sum, term] = line.name.split(": ");
        return h(
          "tr",
          { class: term === undefined ? null : "term" },
          h("th", { scope: "row" }, term === undefined ? capital(line.name) : `${sum}: ${term}`),
          ...line.values.map((_, i) => cell(line, i)),
        );
      }),
    ),
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
