//! A traced part already knows its bytes; only the regime must be chosen.

use super::Mode;
use crate::memory::line::Line;
use crate::memory::tape::{BlockBytes, WeightGrads};
use crate::workload::{BytesLine, TracedPart};

const fn line(b: BytesLine) -> Line {
    Line { fixed: b.0, per_token: b.1 }
}

/// The bytes of a traced part.
pub(super) fn bytes(part: &TracedPart, mode: &Mode<'_>) -> BlockBytes {
    let regime = part.regimes.of(mode.weight < 4.0, mode.autocast);
    let peaks = if mode.recomputed { &regime.recomputed } else { &regime.whole };
    let mut bytes = BlockBytes {
        kept: line(regime.whole.kept),
        weight_grads: (part.parameters - part.frozen) as f64 * mode.weight,
        checkpoint: line(regime.recomputed.kept),
        held: line(regime.held),
        ..BlockBytes::default()
    };
    for &instant in &peaks.forward {
        bytes.forward.include(line(instant), 0.0);
    }
    for instant in &peaks.backward {
        // A gradient that joins one that is there already takes no room of its own.
        let gradients = match mode.weight_grads {
            WeightGrads::Stay => instant.2 * mode.weight,
            WeightGrads::Join => 0.0,
        };
        bytes.backward.include(Line { fixed: instant.0 + gradients, per_token: instant.1 }, 0.0);
    }
    bytes
}
