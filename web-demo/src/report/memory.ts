/** Memory of the fullest GPU against the card: at the peak, and through the step. */
import type { EstimateAnswer } from "shardwise";
import { axis, bar, legend } from "../charts/bar";
import { behind } from "../charts/behind";
import { h } from "../dom";
import * as format from "../format";
import { memoryParts, openMemory } from "./figures";
import type { TermsDialog } from "./terms";

const GIB = 2 ** 30;

export function memory(it: EstimateAnswer, dialog: TermsDialog): HTMLElement[] {
  const { memory: report, fit } = it;
  const peak = report.phases[report.peak];
  const parts = memoryParts(it);
  const scale = Math.max(fit.capacity, report.device.total) * 1.02;
  const list = parts.map((t) => `${t.name} ${format.bytes(t.amount)}`).join(", ");
  return [
    h(
      "p",
      { class: "caption" },
      `At the peak, ${peak?.name ?? ""}, on the fullest GPU; the line is the ${format.bytes(fit.capacity)} a framework can use. What the allocator caches it can give back. The bracket holds four of five measurements of such runs.`,
    ),
    h(
      "div",
      { class: "chart" },
      bar({
        segments: parts,
        scale,
        limit: fit.capacity,
        label: `Memory per GPU: ${format.bytes(report.device.total)} of ${format.bytes(fit.capacity)}: ${list}`,
        format: format.bytes,
        interval: report.device_interval80,
      }),
      axis(scale, GIB, "GiB"),
    ),
    legend(parts, report.device.total, format.bytes, (name, opener) =>
      dialog.open(openMemory(it, name), opener),
    ),
    behind({
      name: "memory at the peak",
      columns: ["Part", "Amount", "Share"],
      rows: () =>
        parts.map((t) => [t.name, format.bytes(t.amount), format.percent(t.amount / report.device.total)]),
    }),
    phases(it, scale, dialog),
  ];
}

/** Each instant at which memory can peak, from top to bottom in the order of the step. */
function phases(it: EstimateAnswer, scale: number, dialog: TermsDialog): HTMLElement {
  const { phases: all, peak } = it.memory;
  const names = [...new Set(all.flatMap((phase) => phase.allocated.terms.map((t) => t.name)))];
  return h(
    "div",
    { class: "phases" },
    h("h3", {}, "Through the step"),
    h(
      "ol",
      {},
      ...all.map(
        (phase, i) =>
          // An instant at which nothing is alive says nothing.
          phase.allocated.total > 0 &&
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                class: i === peak ? "peak" : null,
                "data-key": `phase-${phase.name}`,
                "aria-haspopup": "dialog",
                click: (e) =>
                  dialog.open(
                    {
                      title: `Memory at: ${phase.name}`,
                      figure: `${format.bytes(phase.allocated.total)} allocated`,
                      sum: phase.allocated,
                      format: format.bytes,
                      notes: i === peak ? ["This is the peak."] : [],
                    },
                    e.currentTarget as HTMLElement,
                  ),
              },
              h("span", { class: "name" }, phase.name, i === peak ? h("em", {}, " peak") : null),
              bar({
                segments: phase.allocated.terms,
                scale,
                limit: it.fit.capacity,
                label: "",
                format: format.bytes,
                size: "small",
              }),
              h("span", { class: "amount" }, format.bytes(phase.allocated.total)),
            ),
          ),
      ),
    ),
    behind({
      name: "memory through the step",
      columns: ["Instant", "Allocated", ...names],
      rows: () =>
        all.map((phase, i) => [
          i === peak ? `${phase.name} (peak)` : phase.name,
          format.bytes(phase.allocated.total),
          ...names.map((name) =>
            format.bytes(phase.allocated.terms.find((t) => t.name === name)?.amount ?? 0),
          ),
        ]),
    }),
  );
}
