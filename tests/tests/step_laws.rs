//! Laws of the step: what must hold for every layout, checked over a grid of models, machines and
//! layouts.

use shardwise::layout::{Recompute, Schedule, Sharding};
use shardwise::step::{self, Setting, StepTimes};
use shardwise::workload::Batch;
use shardwise::{Catalog, Cluster, ClusterSpec, Layout, Model, ModelSpec, Recipe};

const MODELS: &[&str] =
    &["llama-3.1-8b", "gpt2-xl", "qwen3-30b-a3b", "deepseek-v3", "gemma-2-2b", "mamba-130m", "t5-base"];
const MACHINES: &[&str] = &["8xH100-SXM-80GB", "2x8xA100-SXM4-80GB", "8xMI300X", "2x8xL40S", "2x4xGB200"];

fn cluster(text: &str) -> Cluster {
    ClusterSpec::from(text).resolve(Catalog::embedded()).expect(text).0
}

fn model(name: &str) -> Model {
    ModelSpec::from(name).resolve("model").expect(name).into_owned()
}

fn layouts(gpus: u64) -> Vec<Layout> {
    let mut out = Vec::new();
    for sharding in
        [Sharding::Ddp, Sharding::Zero1, Sharding::Zero3, Sharding::Fsdp2, Sharding::DistributedOptimizer]
    {
        for (tp, pp) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            let dp = gpus / (tp * pp);
            let (replicate, shard) = if sharding == Sharding::Ddp { (dp, 1) } else { (1, dp) };
            out.push(Layout {
                sharding,
                data_parallel_replicate: replicate,
                data_parallel_shard: shard,
                tensor_parallel: tp,
                pipeline_parallel: pp,
                ..Layout::default()
            });
        }
    }
    out
}

fn each(mut check: impl FnMut(&Model, &Cluster, &Layout)) {
    for name in MODELS {
        let model = model(name);
        for machine in MACHINES {
            let cluster = cluster(machine);
            for layout in layouts(cluster.gpus()) {
                check(&model, &cluster, &layout);
            }
        }
    }
}

const BATCH: Batch = Batch { seq_len: 512, global_batch: 64 };

fn times(model: &Model, cluster: &Cluster, layout: &Layout) -> StepTimes {
    Setting::new(model, &Recipe::default(), BATCH, cluster).times(layout)
}

#[test]
fn terms_are_finite_and_add_up() {
    each(|model, cluster, layout| {
        let report = step::estimate(model, &Recipe::default(), layout, &BATCH, cluster);
        let sum: f64 = report.time.0.iter().map(|t| t.amount.get()).sum();
        assert!(sum.is_finite() && sum > 0.0);
        assert!(report.time.0.iter().chain(&report.hidden.0).all(|t| t.amount.get() >= 0.0));
        let total = times(model, cluster, layout).total();
        assert!((sum / total - 1.0).abs() < 1e-9, "{} {sum} {total}", model.name);
        assert!(report.mfu > 0.0 && report.mfu <= report.hfu + 1e-12 && report.hfu < 1.0);
        assert!(report.interval80.low < report.total() && report.total() < report.interval80.high);
    });
}

#[test]
fn recompute_is_never_faster_and_a_faster_network_never_slower() {
    each(|model, cluster, layout| {
        let plain = times(model, cluster, layout).total();
        let full = Layout { recompute: Recompute::Full, ..layout.clone() };
        assert!(times(model, cluster, &full).total() >= plain);
        let recipe = Recipe::default();
        let setting = Setting::new(model, &recipe, BATCH, cluster);
        let mut faster = setting;
        faster.fabric = setting.fabric.slowed(0.5);
        assert!(faster.times(layout).total() <= plain * (1.0 + 1e-12));
        let mut wider = setting;
        wider.machine.bandwidth *= 2.0;
        assert!(wider.times(layout).total() <= plain * (1.0 + 1e-12));
    });
}

#[test]
fn more_micro_batches_shrink_the_share_of_the_bubble() {
    let (model, cluster) = (model("llama-3.1-8b"), cluster("2x8xA100-SXM4-80GB"));
    let recipe = Recipe::default();
    for schedule in [Schedule::Gpipe, Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubbleH1] {
        let layout = Layout {
            sharding: Sharding::DistributedOptimizer,
            data_parallel_shard: 2,
            pipeline_parallel: 8,
            pipeline_schedule: schedule,
            pipeline_chunks: 2,
            ..Layout::default()
        };
        let mut before = 1.0;
        for global_batch in [16, 32, 64, 128, 256] {
            let batch = Batch { seq_len: 2048, global_batch };
            let t = Setting::new(&model, &recipe, batch, &cluster).times(&layout);
            let share = t.bubble / t.total();
            assert!((0.0..before).contains(&share), "{schedule}: {share} after {before}");
            before = share;
        }
    }
}

#[test]
fn one_gpu_exchanges_nothing() {
    for name in MODELS {
        let (model, cluster) = (model(name), cluster("1xH100-SXM-80GB"));
        let t = times(&model, &cluster, &Layout { sharding: Sharding::None, ..Layout::default() });
        assert_eq!(t.tensor + t.context + t.expert + t.sharded + t.data + t.send + t.bubble, 0.0, "{name}");
    }
}

#[test]
fn remedies_help_as_told() {
    let (model, cluster) = (model("llama-3.1-8b"), cluster("8xH100-SXM-80GB"));
    let layout = Layout { data_parallel_shard: 8, recompute: Recompute::Full, ..Layout::default() };
    let report = step::estimate(&model, &Recipe::default(), &layout, &BATCH, &cluster);
    let told = report.remedies.iter().find(|r| r.change == "no recompute").expect("a remedy");
    let without = Layout { recompute: Recompute::None, ..layout };
    let saved =
        report.total() - step::estimate(&model, &Recipe::default(), &without, &BATCH, &cluster).total();
    assert!((told.saves.get() / saved.get() - 1.0).abs() < 1e-9);
    assert!(report.remedies.windows(2).all(|w| w[0].saves >= w[1].saves));
}
