/** Marks on two axes. Places are in per cent, so a plot is as wide as its place and its words keep their size. */
import { h, s } from "../dom";
import { ticks } from "./bar";

export interface Mark {
  x: number;
  y: number;
  /** What the mark is, read out and shown on pointing. */
  label: string;
  /** Radius in pixels. */
  radius?: number;
  shape: "dot" | "ring" | "square";
  chosen?: boolean;
  /** Tells the mark from others when the chart is drawn again. */
  key: string;
  choose(): void;
}

export interface Plot {
  label: string;
  x: Axis;
  y: Axis;
  marks: Mark[];
  /** Lines through places, with the class that draws them. */
  lines: { class: string; through: [number, number][] }[];
  /** Places named by a few words. */
  notes?: { x: number; y: number; text: string }[];
}

export interface Axis {
  name: string;
  from: number;
  to: number;
  format: (value: number) => string;
  /** What round amounts are multiples of; 1 when absent. */
  unit?: number;
  /** Places of the marks; round amounts when absent. */
  at?: number[];
}

const percent = (part: number): string => `${(100 * part).toFixed(3)}%`;

/** An axis that holds values with room at both ends; from zero unless they are far from it. */
export function span(values: number[], zero: boolean): { from: number; to: number } {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.1 * (high - low || Math.abs(high) || 1);
  return { from: zero || low <= room ? 0 : low - room, to: high + room };
}

/** Round amounts within an axis. */
export function places({ from, to, at, unit = 1 }: Omit<Axis, "name" | "format">, most = 5): number[] {
  if (at) return at;
  const step = (ticks((to - from) / unit, most)[1] ?? (to - from) / unit) * unit;
  const first = Math.ceil(from / step - 1e-9) * step;
  return Array.from({ length: Math.floor((to - first) / step + 1e-9) + 1 }, (_, i) => first + i * step);
}

export function plot({ label, x, y, marks, lines, notes = [] }: Plot): HTMLElement {
  const across = (value: number) => (value - x.from) / (x.to - x.from);
  const down = (value: number) => 1 - (value - y.from) / (y.to - y.from);
  const [columns, rows] = [places(x), places(y)];
  const area = s(
    "svg",
    { class: "plot-area", role: "group", "aria-label": label },
    ...columns.map((value) =>
      s("line", {
        class: "grid",
        x1: percent(across(value)),
        x2: percent(across(value)),
        y1: "0",
        y2: "100%",
      }),
    ),
    ...rows.map((value) =>
      s("line", { class: "grid", y1: percent(down(value)), y2: percent(down(value)), x1: "0", x2: "100%" }),
    ),
    ...lines.flatMap((line) =>
      line.through.slice(1).map(([x2, y2], i) => {
        const [x1, y1] = line.through[i] as [number, number];
        return s("line", {
          class: line.class,
          x1: percent(across(x1)),
          y1: percent(down(y1)),
          x2: percent(across(x2)),
          y2: percent(down(y2)),
        });
      }),
    ),
    ...notes.map((note) =>
      s(
        "text",
        {
          class: "note",
          x: percent(across(note.x)),
          y: percent(down(note.y)),
          dy: "-10",
          "text-anchor": across(note.x) > 0.7 ? "end" : "start",
        },
        note.text,
      ),
    ),
    // The chosen one lies on top.
    ...[...marks]
      .sort((a, b) => Number(a.chosen ?? false) - Number(b.chosen ?? false) || a.x - b.x || b.y - a.y)
      .map((it) => mark(it, percent(across(it.x)), percent(down(it.y)))),
  );
  roam(area);
  return h(
    "div",
    { class: "plot" },
    h("span", { class: "plot-y" }, y.name),
    s(
      "svg",
      { class: "plot-rows", "aria-hidden": "true" },
      ...rows.map((value) =>
        s("text", { x: "100%", y: percent(down(value)), dy: "4", "text-anchor": "end" }, y.format(value)),
      ),
    ),
    area,
    s(
      "svg",
      { class: "plot-columns", "aria-hidden": "true" },
      ...columns.map((value) =>
        s("text", { x: percent(across(value)), y: "13", "text-anchor": "middle" }, x.format(value)),
      ),
    ),
    h("span", { class: "plot-x" }, x.name),
  );
}

function mark({ label, radius = 6, shape, chosen, key, choose }: Mark, x: string, y: string): SVGElement {
  const drawn =
    shape === "square"
      ? s(
          "svg",
          { x, y, class: "square", overflow: "visible", width: "1", height: "1" },
          s("rect", { x: -radius, y: -radius, width: 2 * radius, height: 2 * radius }),
        )
      : s("circle", { cx: x, cy: y, r: radius });
  return s(
    "g",
    {
      class: `mark mark-${shape}`,
      role: "button",
      tabindex: chosen ? "0" : "-1",
      "aria-label": label,
      "aria-pressed": chosen ? "true" : "false",
      "data-key": key,
      click: choose,
      keydown: (e) => {
        const { key: pressed } = e as KeyboardEvent;
        if (pressed !== "Enter" && pressed !== " ") return;
        e.preventDefault();
        choose();
      },
    },
    s("title", {}, label),
    s("circle", { class: "reach", cx: x, cy: y, r: 12 }),
    drawn,
  );
}

/** One stop for the tab key; the arrows walk from mark to mark. */
function roam(area: SVGElement): void {
  const marks = [...area.querySelectorAll<SVGGElement>(".mark")];
  if (!marks.some((it) => it.getAttribute("tabindex") === "0")) marks[0]?.setAttribute("tabindex", "0");
  area.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    const at = marks.indexOf(document.activeElement as SVGGElement);
    if (step === undefined || at < 0) return;
    e.preventDefault();
    marks[at]?.setAttribute("tabindex", "-1");
    const next = marks[(at + step + marks.length) % marks.length];
    next?.setAttribute("tabindex", "0");
    next?.focus();
  });
}
