/** The figures at a glance. Each is a button that opens its terms. */
import type { Assumption, EstimateAnswer } from "shardwise";
import { h } from "../dom";
import * as format from "../format";
import type { Opened, Sum, TermsDialog } from "./terms";
import { needed } from "./verdict";

interface Figure {
  key: string;
  name: string;
  value: string;
  beside: string;
  opened: Opened;
}

export function figures(it: EstimateAnswer, dialog: TermsDialog): HTMLElement {
  return h(
    "ul",
    { class: "figures" },
    ...all(it).map(({ key, name, value, beside, opened }) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            "data-key": `figure-${key}`,
            "aria-haspopup": "dialog",
            click: (e) => dialog.open(opened, e.currentTarget as HTMLElement),
          },
          h("span", { class: "name" }, name),
          h("strong", {}, value),
          h("span", { class: "beside" }, beside),
        ),
      ),
    ),
  );
}

/** Where predicted stands against measured, with its scatter. */
const ACCURACY: [string, string] = [
  "Predicted and measured",
  "https://github.com/shardwise/shardwise/blob/main/docs/accuracy.md",
];

/** What was assumed for the fields under these roots. */
function assumed(it: EstimateAnswer, ...roots: string[]): [string, string][] {
  return it.assumptions
    .filter((a: Assumption) => roots.some((root) => a.field.startsWith(root)))
    .map((a) => [`Assumed ${a.field}`, `${a.value}: ${a.why}`]);
}

/** The parts of the device's reading: tensors at the peak, what the process needs, what is only cached. */
export function memoryParts({ memory }: EstimateAnswer): Sum["terms"] {
  const beside = memory.device.terms.filter((t) => t.name !== "allocated");
  const cached = (t: { name: string }) => memory.reserved.terms.some((r) => r.name === t.name);
  return [
    ...(memory.phases[memory.peak]?.allocated.terms ?? []),
    ...beside.filter((t) => !cached(t)),
    ...beside.filter(cached),
  ].filter((t) => t.amount > 0);
}

export function openMemory(it: EstimateAnswer, chosen?: string): Opened {
  const { memory, fit } = it;
  const peak = memory.phases[memory.peak];
  const opened: Opened = {
    title: "Memory of the fullest GPU",
    figure: `${format.bytes(memory.device.total)} on the device, of ${format.bytes(fit.capacity)}`,
    sum: { total: memory.device.total, terms: memoryParts(it) },
    format: format.bytes,
    notes: [
      [
        "80 % interval",
        `${format.bytes(memory.device_interval80.low)} to ${format.bytes(memory.device_interval80.high)}, from the errors on measured runs`,
      ],
      [
        "Allocated",
        `${format.bytes(memory.allocated)} at the peak (${peak?.name ?? ""}), as torch.cuda.max_memory_allocated`,
      ],
      ["Reserved", `${format.bytes(memory.reserved.total)}, as torch.cuda.max_memory_reserved`],
      [
        "Needed",
        `${format.bytes(needed(it))}: what the allocator can give back left out; this decides whether it fits`,
      ],
      ["Pipeline stage", String(memory.stage)],
      ...(memory.host.total > 0
        ? [["Host memory per rank", format.bytes(memory.host.total)] as [string, string]]
        : []),
      ACCURACY,
      ...assumed(it, "recipe", "layout", "cluster.usable"),
    ],
  };
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

export function openStep(it: EstimateAnswer, chosen?: string): Opened {
  const { step } = it;
  const opened: Opened = {
    title: "One optimizer step",
    figure: format.seconds(step.time.total),
    sum: step.time,
    format: format.seconds,
    notes: [
      [
        "80 % interval",
        `${format.seconds(step.interval80.low)} to ${format.seconds(step.interval80.high)}, from the errors on measured runs`,
      ],
      ["Largest beyond compute", step.bottleneck],
      ...step.hidden.terms.map(
        (t) =>
          [`Hidden: ${t.name}`, `${format.seconds(t.amount)} ${t.formula}; not part of the step`] as [
            string,
            string,
          ],
      ),
      ACCURACY,
      ...assumed(it, "recipe.runtime", "cluster"),
    ],
  };
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

/** Interval of the run, which is so many steps. */
function scaled({ step }: EstimateAnswer, whole: number): { low: number; high: number } {
  const by = whole / step.time.total;
  return { low: step.interval80.low * by, high: step.interval80.high * by };
}

function outlookNotes(it: EstimateAnswer, unit: "time" | "money"): [string, string][] {
  const outlook = it.run?.outlook;
  const spread = unit === "time" ? outlook?.time_spread : outlook?.cost_spread;
  const show = unit === "time" ? format.seconds : format.usd;
  return [
    ...(spread
      ? ([
          ["Half of all runs", `stay below ${show(spread.p50)}`],
          ["Nine in ten", `stay below ${show(spread.p90)}`],
          ["99 in 100", `stay below ${show(spread.p99)}`],
        ] as [string, string][])
      : []),
    ...(outlook?.assumptions ?? []).map((a): [string, string] => [
      `Assumed ${a.field}`,
      `${a.value}: ${a.why}`,
    ]),
  ];
}

export function openExpectedTime(it: EstimateAnswer, chosen?: string): Opened {
  const outlook = it.run?.outlook;
  const opened: Opened = {
    title: "Expected time of the run",
    figure: format.seconds(outlook?.time.total ?? 0),
    format: format.seconds,
    notes: [["When nothing is lost", format.seconds(outlook?.undisturbed ?? 0)], ...outlookNotes(it, "time")],
  };
  if (outlook) opened.sum = outlook.time;
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

export function openExpectedCost(it: EstimateAnswer, chosen?: string): Opened {
  const ledger = it.run?.outlook?.ledger;
  const opened: Opened = {
    title: "Expected cost of the run",
    figure: format.usd(ledger?.total ?? 0),
    format: format.usd,
    notes: [...outlookNotes(it, "money"), ...priceNotes(it), ...assumed(it, "cluster.price", "run")],
  };
  if (ledger) opened.sum = ledger;
  if (chosen !== undefined) opened.chosen = chosen;
  return opened;
}

function priceNotes({ run, cluster }: EstimateAnswer): [string, string][] {
  const price = run?.price;
  if (!price) return [];
  return [
    [
      "Price",
      `${format.usdPerHour(price.cluster)} for ${format.count(cluster.nodes * cluster.gpus_per_node)} GPUs, ${kindOfPrice(price.kind)}`,
    ],
    ["Offer", cluster.prices.offer],
    ["Read", price.as_of],
    ["Source", price.source],
  ].filter((note): note is [string, string] => note[1] !== "");
}

/** `on_demand` as people write it. */
function kindOfPrice(kind: string): string {
  return kind.replace("_", " ").replace(/(\d)y/, "$1 y");
}

function all(it: EstimateAnswer): Figure[] {
  const { step, run, fit, cluster } = it;
  const gpus = cluster.nodes * cluster.gpus_per_node;
  const rate = step.tokens / step.time.total;
  const list: Figure[] = [
    {
      key: "memory",
      name: "Memory per GPU",
      value: format.bytes(needed(it)),
      beside:
        fit.headroom >= 0
          ? `${format.bytes(fit.headroom)} free of ${format.bytes(fit.capacity)}`
          : `${format.bytes(-fit.headroom)} more than ${format.bytes(fit.capacity)}`,
      opened: openMemory(it),
    },
    {
      key: "step",
      name: "Step",
      value: format.seconds(step.time.total),
      beside: `${format.seconds(step.interval80.low)} to ${format.seconds(step.interval80.high)}`,
      opened: openStep(it),
    },
    {
      key: "rate",
      name: "Throughput",
      value: `${format.count(rate)} tokens/s`,
      beside: `${format.count(rate / gpus)} a GPU`,
      opened: {
        title: "Throughput",
        figure: `${format.count(rate)} tokens/s on ${format.count(gpus)} GPUs`,
        notes: [
          ["Formula", `${format.count(step.tokens)} tokens a step / ${format.seconds(step.time.total)}`],
          [
            "Tokens a step",
            `sequence ${format.count(it.seq_len)} × global batch ${format.count(it.global_batch)}`,
          ],
          ["Micro-batches", `${format.count(it.gradient_accumulation)} a rank and step`],
        ],
      },
    },
    {
      key: "mfu",
      name: "MFU",
      value: format.percent(step.mfu),
      beside: `HFU ${format.percent(step.hfu)}`,
      opened: {
        title: "Model FLOPs utilisation",
        figure: format.percent(step.mfu),
        notes: [
          ["Formula", "model FLOPs / (step time × GPUs × dense peak of the compute format)"],
          [
            "Model FLOPs",
            `${format.flops(step.model_flops)} a step; causal attention counted as half, recompute not counted`,
          ],
          [
            "Hardware FLOPs",
            `${format.flops(step.hardware_flops)} a step, recompute included: HFU ${format.percent(step.hfu)}`,
          ],
          ["Source", "Chowdhery 2022 (PaLM), appendix B"],
        ],
      },
    },
  ];
  if (!run) return list;
  const { cost, price, outlook } = run;
  const span = scaled(it, run.time);
  list.push({
    key: "run",
    name: outlook ? "Run, expected" : "Run",
    value: format.seconds(outlook?.time.total ?? run.time),
    beside: outlook ? `P90 ${format.seconds(outlook.time_spread.p90)}` : `${format.count(run.steps)} steps`,
    opened: outlook
      ? openExpectedTime(it)
      : {
          title: "The whole run",
          figure: `${format.seconds(run.time)} (${format.count(run.time / 3600)} h)`,
          notes: [
            ["Formula", `${format.count(run.steps)} steps × ${format.seconds(step.time.total)}`],
            [
              "80 % interval",
              `${format.seconds(span.low)} to ${format.seconds(span.high)}: that of a step, as often`,
            ],
            ["Tokens", format.count(run.tokens)],
          ],
        },
  });
  const money = scaled(it, cost?.total ?? 0);
  list.push({
    key: "cost",
    name: outlook?.ledger ? "Cost, expected" : "Cost",
    value: cost ? format.usd(outlook?.ledger?.total ?? cost.total) : "unknown",
    beside: price
      ? outlook?.cost_spread
        ? `P90 ${format.usd(outlook.cost_spread.p90)}, ${kindOfPrice(price.kind)}`
        : `${format.usdPerHour(price.cluster)}, ${kindOfPrice(price.kind)}`
      : "no price of that kind",
    opened: outlook?.ledger
      ? openExpectedCost(it)
      : {
          title: "Cost of the run",
          figure: cost
            ? format.usd(cost.total)
            : "unknown: the catalogue has no price of that kind for these machines",
          ...(cost ? { sum: cost, format: format.usd } : {}),
          notes: [
            ...(cost
              ? [
                  [
                    "80 % interval",
                    `${format.usd(money.low)} to ${format.usd(money.high)}: that of a step, as often`,
                  ] as [string, string],
                ]
              : []),
            ...priceNotes(it),
            ...assumed(it, "cluster.price", "run"),
          ],
        },
  });
  return list;
}
