/** What stands behind a chart or a list: folded, made when it is first opened, open until it is closed again. */
import { h } from "../dom";

const opened = new Set<string>();

/** `name` tells it from the others of the page. */
export function fold(name: string, title: string, make: () => Element): HTMLElement {
  const fill = () => details.childElementCount < 2 && details.append(make());
  const details = h(
    "details",
    {
      class: "behind",
      open: opened.has(name),
      toggle: () => {
        if (!details.open) opened.delete(name);
        else {
          opened.add(name);
          fill();
        }
      },
    },
    h("summary", { "data-key": `behind-${name}` }, title),
  );
  if (details.open) fill();
  return details;
}

export interface Behind {
  /** Which chart. */
  name: string;
  columns: string[];
  /** A cell that is an element stays one. The first cell heads its row. */
  rows: () => (string | Node)[][];
}

/** The table behind a chart. */
export function behind({ name, columns, rows }: Behind): HTMLElement {
  return fold(name, "As a table", () =>
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${name}` },
      h(
        "table",
        { class: "behind-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...columns.map((column) => (column === "" ? h("td") : h("th", { scope: "col" }, column))),
          ),
        ),
        h(
          "tbody",
          {},
          ...rows().map(([first, ...others]) =>
            h("tr", {}, h("th", { scope: "row" }, first), ...others.map((cell) => h("td", {}, cell))),
          ),
        ),
      ),
    ),
  );
}
