//! A traced part already knows its bytes; only the regime must be chosen.

use super::Mode;
use crate::memory::line::Line;
use crate::memory::tape::BlockBytes;
use crate::workload::{BytesLine, TracedPart};

const fn line(b: BytesLine) -> Line {
    Line { fixed: b.0, per_token: b.1 }
}

/// The bytes of a traced part.
pub(super) fn bytes(part: &TracedPart, mode: &Mode<'_>) -> BlockBytes {
    let regime = part.regimes.of(mode.weight < 4.0, mode.autocast);
    let mut bytes = BlockBytes {
        kept: line(regime.kept),
        weight_grads: (part.parameters - part.frozen) as f64 * mode.weight,
        checkpoint: line(if part.unit { regime.checkpoint } else { regime.kept }),
        ..BlockBytes::default()
    };
    bytes.backward.include(line(regime.backward), 0.0);
    bytes
}
