//! A traced part already knows its bytes; only the regime must be chosen.

use super::Mode;
use crate::memory::kernels::GEMM_WORKSPACE;
use crate::memory::line::{Envelope, Line};
use crate::memory::tape::{BlockBytes, WeightGrads};
use crate::workload::{BytesLine, TracedInstant, TracedPart};

const fn line(b: BytesLine) -> Line {
    Line { fixed: b.0, per_token: b.1 }
}

/// The bytes of a traced part.
pub(super) fn bytes(part: &TracedPart, mode: &Mode<'_>) -> BlockBytes {
    let regime = part.regimes.of(mode.weight < 4.0, mode.autocast);
    let peaks = if mode.recomputed { &regime.recomputed } else { &regime.whole };
    // Where sharding casts what it gathers, the script still holds what it gave in fp32.
    let casts = !mode.autocast && mode.recipe.params().bytes() > mode.weight;
    let inputs = Line::per_token(if casts { part.inputs * 4.0 } else { 0.0 });
    let mut bytes = BlockBytes {
        kept: line(regime.whole.kept) + inputs,
        weight_grads: (part.parameters - part.frozen) as f64 * mode.weight,
        checkpoint: line(regime.recomputed.kept) + inputs,
        held: line(regime.held) + inputs,
        ..BlockBytes::default()
    };
    // A gradient that joins one that is there already takes no room of its own.
    let gradient = match mode.weight_grads {
        WeightGrads::Stay => mode.weight,
        WeightGrads::Join => 0.0,
    };
    // A processor's kernels take no workspace and leave no partial sums.
    let (workspace, sums) = if mode.recipe.on_processor { (0.0, 0.0) } else { (GEMM_WORKSPACE.fixed, 1.0) };
    let include = |envelope: &mut Envelope, instants: &[TracedInstant]| {
        for i in instants {
            let fixed = i.bytes.0 + i.gradients * gradient + i.workspaces * workspace;
            let alive = Line { fixed, per_token: i.bytes.1 + i.taken * sums } + inputs;
            envelope.include(alive, line(i.columns) * sums, line(i.rows));
        }
    };
    include(&mut bytes.forward, &peaks.forward);
    include(&mut bytes.backward, &peaks.backward);
    bytes
}
