/** The layout as the file that `accelerate launch --config_file` reads. */
import type { EstimateAnswer, Layout } from "shardwise";

const FSDP1: Partial<Record<Layout["sharding"], string>> = {
  FULL_SHARD: "FULL_SHARD",
  SHARD_GRAD_OP: "SHARD_GRAD_OP",
  NO_SHARD: "NO_SHARD",
  HYBRID_SHARD: "HYBRID_SHARD",
  _HYBRID_SHARD_ZERO2: "HYBRID_SHARD_ZERO2",
};
const WRAP: Partial<Record<Layout["wrap"], string>> = {
  layers: "TRANSFORMER_BASED_WRAP",
  size: "SIZE_BASED_WRAP",
  model: "NO_WRAP",
};
const ZERO: Partial<Record<Layout["sharding"], number>> = { zero1: 1, zero2: 2, zero3: 3 };
const PRECISION: Record<string, string> = { fp32: "no", tf32: "no", mxfp8: "fp8", nvfp4: "fp8" };

type Yaml = { [key: string]: string | number | boolean | Yaml };

/** `compute` is the format of the matrix products. What Accelerate has no word for is said instead. */
export function accelerate(it: EstimateAnswer, compute: string): string {
  const { layout, cluster } = it;
  const cannot = objection(layout);
  if (cannot) return `# ${cannot}`;
  const { sharding } = layout;
  const fsdp = sharding === "fsdp2" || sharding in FSDP1;
  const zero = ZERO[sharding];
  const out: Yaml = {
    compute_environment: "LOCAL_MACHINE",
    distributed_type: fsdp ? "FSDP" : zero ? "DEEPSPEED" : sharding === "ddp" ? "MULTI_GPU" : "NO",
    mixed_precision: PRECISION[compute] ?? compute,
    num_machines: cluster.nodes,
    num_processes: cluster.nodes * cluster.gpus_per_node,
    machine_rank: 0,
    main_training_function: "main",
    use_cpu: false,
  };
  if (fsdp) {
    out.fsdp_config = fsdpConfig(layout);
    if (sharding === "fsdp2" && layout.data_parallel_replicate > 1) {
      out.parallelism_config = {
        parallelism_config_dp_replicate_size: layout.data_parallel_replicate,
        parallelism_config_dp_shard_size: layout.data_parallel_shard,
      };
    }
  }
  if (zero) {
    out.deepspeed_config = {
      zero_stage: zero,
      gradient_accumulation_steps: it.gradient_accumulation,
      offload_optimizer_device: layout.offload.includes("optimizer") ? "cpu" : "none",
      offload_param_device: layout.offload.includes("param") ? "cpu" : "none",
      zero3_init_flag: zero === 3,
    };
  }
  return yaml(out);
}

function objection(layout: Layout): string | undefined {
  for (const [degree, name] of [
    [layout.tensor_parallel, "tensor"],
    [layout.pipeline_parallel, "pipeline"],
    [layout.context_parallel, "context"],
  ] as const) {
    if (degree > 1)
      return `Accelerate's file has no words for ${name} parallelism, here of ${degree}: choose a plan without.`;
  }
  if (layout.sharding === "distributed_optimizer")
    return "Accelerate has no words for Megatron's distributed optimizer.";
  if (layout.sharding === "fsdp2" && layout.reshard_after_forward === "node") {
    return "Accelerate has no words for reshard_after_forward within a node.";
  }
  if ((layout.sharding === "fsdp2" || layout.sharding in FSDP1) && !(layout.wrap in WRAP))
    return `Accelerate has no words for units of ${layout.wrap}.`;
  return undefined;
}

function fsdpConfig(layout: Layout): Yaml {
  const two = layout.sharding === "fsdp2";
  return {
    fsdp_version: two ? 2 : 1,
    fsdp_auto_wrap_policy: WRAP[layout.wrap] ?? "",
    ...(layout.wrap === "size" ? { fsdp_min_num_params: 100_000_000 } : {}),
    fsdp_offload_params: layout.offload.includes("param"),
    fsdp_activation_checkpointing: layout.recompute === "full",
    fsdp_state_dict_type: "SHARDED_STATE_DICT",
    fsdp_cpu_ram_efficient_loading: true,
    ...(two
      ? { fsdp_reshard_after_forward: layout.reshard_after_forward !== "never" }
      : { fsdp_sharding_strategy: FSDP1[layout.sharding] ?? "", fsdp_use_orig_params: true }),
  };
}

/** YAML reads a bare `no` as false. */
function yaml(value: Yaml, indent = ""): string {
  return Object.entries(value)
    .map(([key, item]) =>
      typeof item === "object"
        ? `${indent}${key}:\n${yaml(item, `${indent}  `)}`
        : `${indent}${key}: ${item === "no" ? '"no"' : item}`,
    )
    .join("\n");
}
