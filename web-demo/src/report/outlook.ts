/** What a run may come to: expected time and money, their spread, the ways of paying. */
import type { EstimateAnswer, RunOutlook } from "shardwise";
import { bar, legend } from "../charts/bar";
import { behind } from "../charts/behind";
import { spread } from "../charts/spread";
import { h } from "../dom";
import * as format from "../format";
import { openExpectedCost, openExpectedTime } from "./figures";
import type { TermsDialog } from "./terms";

export function outlook(it: EstimateAnswer, dialog: TermsDialog, reckon: () => void): Element[] {
  const { run } = it;
  if (!run) return [];
  const expected = run.outlook;
  if (!expected) {
    return [
      h(
        "p",
        { class: "caption" },
        "So far no machine is lost, nothing is saved, and time and money have no spread.",
      ),
      h("button", { type: "button", "data-key": "reckon", click: reckon }, "Reckon with lost machines"),
      ...offers(it),
    ];
  }
  const { time, time_spread, ledger, cost_spread, deadline } = expected;
  const scale = format.timeScale(time_spread.p99);
  return [
    h("p", { class: "caption" }, said(expected)),
    spread({
      name: "Time",
      expected: time.total,
      undisturbed: expected.undisturbed,
      format: format.seconds,
      unit: scale.unit,
      mark: scale.format,
      ...time_spread,
    }),
    ...(ledger && cost_spread
      ? [
          spread({
            name: "Cost",
            expected: ledger.total,
            format: format.usd,
            unit: 1,
            mark: format.usdMark,
            ...cost_spread,
          }),
        ]
      : []),
    h(
      "p",
      { class: "key" },
      "Dot: expected. Dark to nine runs in ten, light to ninety-nine in a hundred, from what half of them stay below. Thin line: undisturbed.",
    ),
    ...(deadline
      ? [
          h(
            "p",
            {},
            `Ends within ${format.seconds(deadline.after)} with a chance of ${format.percent(deadline.chance)}.`,
          ),
        ]
      : []),
    h("h3", {}, "Where the time goes"),
    bar({
      segments: time.terms,
      scale: time.total,
      label: `Expected time ${format.seconds(time.total)}: ${time.terms.map((t) => `${t.name} ${format.seconds(t.amount)}`).join(", ")}`,
      format: format.seconds,
      size: "small",
    }),
    legend(
      time.terms,
      time.total,
      format.seconds,
      (name, opener) => dialog.open(openExpectedTime(it, name), opener),
      "time",
    ),
    ...(ledger
      ? [
          h("h3", {}, "Where the money goes"),
          bar({
            segments: ledger.terms,
            scale: ledger.total,
            label: `Expected cost ${format.usd(ledger.total)}: ${ledger.terms.map((t) => `${t.name} ${format.usd(t.amount)}`).join(", ")}`,
            format: format.usd,
            size: "small",
          }),
          legend(
            ledger.terms,
            ledger.total,
            format.usd,
            (name, opener) => dialog.open(openExpectedCost(it, name), opener),
            "money",
          ),
        ]
      : []),
    behind({
      name: "spread",
      columns: ["", "Undisturbed", "Expected", "P50", "P90", "P99"],
      rows: () => [
        ["Time", expected.undisturbed, time.total, time_spread.p50, time_spread.p90, time_spread.p99].map(
          (v) => (typeof v === "number" ? format.seconds(v) : v),
        ),
        ...(ledger && cost_spread
          ? [
              [
                "Cost",
                run.cost?.total ?? "",
                ledger.total,
                cost_spread.p50,
                cost_spread.p90,
                cost_spread.p99,
              ].map((v) => (typeof v === "number" ? format.usd(v) : v)),
            ]
          : []),
      ],
    }),
    ...saves(expected),
    ...offers(it),
  ];
}

function said({ ends, losses, time, undisturbed }: RunOutlook): string {
  if (!ends) return "Machines are lost faster than work is saved: this run never ends.";
  const lost = losses?.expected == null ? "" : `; ${losses.expected.toFixed(1)} losses expected`;
  return `${format.seconds(time.total)} expected, ${format.seconds(undisturbed)} when nothing is lost${lost}.`;
}

function saves({ checkpoint, losses }: RunOutlook): HTMLElement[] {
  const facts: [string, string][] = [];
  if (checkpoint) {
    facts.push(
      ["Checkpoint", format.bytes(checkpoint.bytes.total)],
      ["Saved every", `${format.seconds(checkpoint.interval)} of work`],
      ["Stall of a save", format.seconds(checkpoint.stall.total)],
      ["Written within", format.seconds(checkpoint.write)],
      ["Loaded within", format.seconds(checkpoint.load)],
    );
    if (checkpoint.best_interval !== null && checkpoint.best_interval !== checkpoint.interval) {
      facts.push([
        "Best interval",
        `${format.seconds(checkpoint.best_interval)}: this one takes ${format.percent(checkpoint.excess)} longer`,
      ]);
    }
  }
  if (losses) {
    facts.push([
      "A node is lost",
      losses.per_node_hour > 0 ? `every ${format.seconds(3600 / losses.per_node_hour)}` : "never",
    ]);
    if (losses.mean_up !== null) facts.push(["The gang is complete for", format.seconds(losses.mean_up)]);
    facts.push(["Wait for capacity", format.seconds(losses.mean_down)]);
  }
  if (facts.length === 0) return [];
  return [
    h("h3", {}, "Saves and losses"),
    h(
      "dl",
      { class: "facts" },
      ...facts.flatMap(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value))]),
    ),
  ];
}

const OFFERS: Record<string, string> = {
  on_demand: "on demand",
  spot: "spot",
  reserved_1y: "reserved, one year",
  reserved_3y: "reserved, three years",
  owned: "of one's own",
};

function offers({ run }: EstimateAnswer): HTMLElement[] {
  const lines = run?.offers ?? [];
  if (lines.length === 0) return [];
  return [
    h("h3", {}, "Ways of paying"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ways of paying" },
      h(
        "table",
        { class: "offers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...["Offer", "Price", "Expected", "P90", "Cost", "Owed in all", "Cheaper from"].map((c) =>
              h("th", { scope: "col" }, c),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          ...lines.map((line) =>
            h(
              "tr",
              {},
              h(
                "th",
                { scope: "row" },
                `${OFFERS[line.offer] ?? line.offer}, ${line.place}`.replace(/, $/, ""),
              ),
              ...[
                format.usdPerHour(line.price),
                format.seconds(line.time),
                format.seconds(line.time_p90),
                format.usd(line.cost),
                line.committed === null ? "" : format.usd(line.committed),
                line.break_even === null
                  ? ""
                  : line.break_even > 1
                    ? "never"
                    : `${format.percent(line.break_even)} in use`,
              ].map((text) => h("td", { class: "number" }, text)),
            ),
          ),
        ),
      ),
    ),
  ];
}
