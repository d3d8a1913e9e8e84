/** How widely a figure scatters: its expectation among the values that runs stay below. */
import { h, s } from "../dom";
import { places } from "./plot";

export interface Spread {
  name: string;
  expected: number;
  undisturbed?: number;
  p50: number;
  p90: number;
  p99: number;
  format: (amount: number) => string;
  /** What the marks of the axis are multiples of, and how they are written. */
  unit: number;
  mark: (amount: number) => string;
}

const percent = (part: number): string => `${(100 * part).toFixed(3)}%`;

export function spread({
  name,
  expected,
  undisturbed,
  p50,
  p90,
  p99,
  format,
  unit,
  mark,
}: Spread): HTMLElement {
  const all = [expected, p50, p90, p99, ...(undisturbed === undefined ? [] : [undisturbed])];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = 0.08 * (high - low || high || 1);
  const [from, to] = [Math.max(0, low - room), high + room];
  const x = (value: number) => percent((value - from) / (to - from));
  const width = (a: number, b: number) => percent(Math.max(0, b - a) / (to - from));
  const marks = places({ from, to, unit }, 4);
  const said = `${name}: expected ${format(expected)}; half of all runs below ${format(p50)}, nine in ten below ${format(p90)}, ninety-nine in a hundred below ${format(p99)}`;
  return h(
    "div",
    { class: "spread" },
    h("span", { class: "name" }, name),
    s(
      "svg",
      { class: "spread-lane", role: "img", "aria-label": said },
      s("rect", { class: "ground", width: "100%", height: "100%" }),
      s("rect", { class: "to-p99", x: x(p50), width: width(p50, p99), y: "6", height: "10" }),
      s("rect", { class: "to-p90", x: x(p50), width: width(p50, p90), y: "3", height: "16" }),
      ...[p50, p90, p99].map((value) =>
        s("line", { class: "quantile", x1: x(value), x2: x(value), y1: "2", y2: "20" }),
      ),
      undisturbed !== undefined &&
        s("line", { class: "undisturbed", x1: x(undisturbed), x2: x(undisturbed), y1: "0", y2: "100%" }),
      s("circle", { class: "expected", cx: x(expected), cy: "11", r: "4.5" }),
    ),
    s(
      "svg",
      { class: "axis", "aria-hidden": "true" },
      ...marks.flatMap((value) => [
        s("line", { x1: x(value), x2: x(value), y1: "0", y2: "4" }),
        s("text", { x: x(value), y: "16", "text-anchor": "middle" }, mark(value)),
      ]),
    ),
  );
}
