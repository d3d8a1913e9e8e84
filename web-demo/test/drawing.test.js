// What the page computes by itself: where the pieces of a pipeline lie, and the words of a file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { createServer } from "vite";
import { pythonPalette } from "../tools/palette.js";

/** @type {import("vite").ViteDevServer} */
let server;
before(async () => {
  server = await createServer({
    server: { middlewareMode: true, ws: false },
    appType: "custom",
    logLevel: "error",
  });
});
after(() => server.close());

/** @typedef {{ rank: number, chunk: number, micro: number, work: string, start: number, end: number }} Piece */

// Bubbles of a rank in units of F = B = W = 1, as the core's own closed forms give them; of the two
// last, whose ranks start and end apart, the span of the whole less a rank's work is the skew.
for (const [schedule, chunks, bubble] of /** @type {const} */ ([
  ["gpipe", 1, (/** @type {number} */ p) => 3 * (p - 1)],
  ["1f1b", 1, (/** @type {number} */ p) => 3 * (p - 1)],
  ["interleaved_1f1b", 2, (/** @type {number} */ p) => (3 * (p - 1)) / 2],
  ["interleaved_1f1b", 4, (/** @type {number} */ p) => (3 * (p - 1)) / 4],
  ["zero_bubble_h1", 1, (/** @type {number} */ p) => p - 1],
  ["zero_bubble_h2", 1, (/** @type {number} */ p) => p - 1],
])) {
  test(`the drawing of ${schedule} with ${chunks} chunks idles as long as its closed form says`, async () => {
    const { timeline } = await server.ssrLoadModule("/src/pipeline.ts");
    for (const ranks of [2, 4, 8]) {
      const micros = 2 * ranks;
      /** @type {Piece[]} */
      const pieces = timeline({ schedule, ranks, chunks, micros, times: { F: 1, B: 1, W: 1 } });
      const end = Math.max(...pieces.map((p) => p.end));
      assert.ok(Math.abs(end - 3 * micros - bubble(ranks)) < 1e-9, `${ranks} ranks: ${end}`);
    }
  });
}

for (const [schedule, chunks] of /** @type {const} */ ([
  ["gpipe", 1],
  ["1f1b", 1],
  ["interleaved_1f1b", 3],
  ["zero_bubble_h1", 1],
  ["zero_bubble_h2", 1],
  ["zero_bubble_v", 2],
  ["dualpipe", 2],
])) {
  test(`in the drawing of ${schedule} no rank does two things at once, and all work is done`, async () => {
    const { timeline } = await server.ssrLoadModule("/src/pipeline.ts");
    for (const [ranks, micros] of /** @type {const} */ ([
      [2, 1],
      [4, 8],
      [4, 6],
      [8, 16],
    ])) {
      /** @type {Piece[]} */
      const pieces = timeline({ schedule, ranks, chunks, micros, times: { F: 1, B: 1.5, W: 0.5 } });
      const worked = pieces.reduce((sum, p) => sum + p.end - p.start, 0);
      assert.ok(Math.abs(worked - 3 * micros * ranks) < 1e-6, `${ranks} x ${micros}: ${worked}`);
      for (let rank = 0; rank < ranks; rank++) {
        const own = pieces.filter((p) => p.rank === rank).sort((a, b) => a.start - b.start);
        own.slice(1).forEach((p, i) => {
          assert.ok(p.start >= (own[i]?.end ?? 0) - 1e-9, `${ranks} x ${micros}, rank ${rank}`);
        });
      }
    }
  });
}

test("Accelerate's file says the layout in its words, and what it has no words for", async () => {
  const { accelerate } = await server.ssrLoadModule("/src/accelerate.ts");
  const layout = {
    sharding: "fsdp2",
    data_parallel_replicate: 1,
    data_parallel_shard: 8,
    tensor_parallel: 1,
    pipeline_parallel: 1,
    context_parallel: 1,
    recompute: "full",
    offload: [],
    wrap: "layers",
    reshard_after_forward: "default",
  };
  const it = { layout, cluster: { nodes: 1, gpus_per_node: 8 }, gradient_accumulation: 4 };
  assert.equal(
    accelerate(it, "bf16"),
    [
      "compute_environment: LOCAL_MACHINE",
      "distributed_type: FSDP",
      "mixed_precision: bf16",
      "num_machines: 1",
      "num_processes: 8",
      "machine_rank: 0",
      "main_training_function: main",
      "use_cpu: false",
      "fsdp_config:",
      "  fsdp_version: 2",
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
      "  fsdp_offload_params: false",
      "  fsdp_activation_checkpointing: true",
      "  fsdp_state_dict_type: SHARDED_STATE_DICT",
      "  fsdp_cpu_ram_efficient_loading: true",
      "  fsdp_reshard_after_forward: true",
    ].join("\n"),
  );
  assert.match(
    accelerate({ ...it, layout: { ...layout, sharding: "zero2" } }, "fp32"),
    /mixed_precision: "no"/,
  );
  assert.match(
    accelerate({ ...it, layout: { ...layout, tensor_parallel: 2 } }, "bf16"),
    /^# Accelerate's file has no words for tensor parallelism/,
  );
});

test("the notebook's charts have the page's colours", () => {
  const generated = pythonPalette();
  assert.doesNotMatch(generated, /: "",/, "every tone has its colour");
  assert.equal(
    readFileSync(new URL("../../python/shardwise/_palette.py", import.meta.url), "utf8"),
    generated,
    "node tools/palette.js",
  );
});
