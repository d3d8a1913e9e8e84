//! What is alive at the instants of a step, by part.

use crate::workload::BlockKind;

/// What is alive at one instant, by part, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) parameters: f64,
    pub(super) optimizer: f64,
    pub(super) master: f64,
    pub(super) ema: f64,
    pub(super) framework: f64,
    pub(super) inputs: f64,
    pub(super) gradients: f64,
    pub(super) activations: f64,
    pub(super) working: f64,
    pub(super) loss: f64,
    pub(super) gathered: f64,
    pub(super) reduction: f64,
    pub(super) copies: f64,
    pub(super) temporaries: f64,
    /// What the other micro-batches of the pipeline keep meanwhile.
    pub(super) waiting: f64,
}

impl Parts {
    /// Everything: what is there without a pipeline first, so that another schedule adds to it.
    pub(super) fn total(&self) -> f64 {
        self.alone() + self.waiting
    }

    /// What rests between steps.
    pub(super) fn at_rest(&self) -> f64 {
        self.parameters + self.optimizer + self.master + self.ema + self.framework
    }

    /// All but what other micro-batches keep.
    pub(super) fn alone(&self) -> f64 {
        self.parameters
            + self.optimizer
            + self.master
            + self.ema
            + self.framework
            + self.inputs
            + self.gradients
            + self.activations
            + self.working
            + self.loss
            + self.gathered
            + self.reduction
            + self.copies
            + self.temporaries
    }
}

/// The instants, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instant {
    ForwardEnd,
    LossBackward,
    HeadBackward,
    TopLayer,
    BottomLayer,
    EmbeddingBackward,
    Reduction,
    OptimizerStep,
    Load,
}

impl Instant {
    /// Whether other micro-batches of a pipeline wait then.
    pub(super) const fn waits(self) -> bool {
        !matches!(self, Self::Reduction | Self::OptimizerStep | Self::Load)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ForwardEnd => "end of forward",
            Self::LossBackward => "loss backward",
            Self::HeadBackward => "head backward",
            Self::TopLayer => "backward of the last layers",
            Self::BottomLayer => "backward of the first layers",
            Self::EmbeddingBackward => "embedding backward",
            Self::Reduction => "last gradient reduction",
            Self::OptimizerStep => "optimizer step",
            Self::Load => "loading the model",
        }
    }
}

/// What is alive at each instant.
pub(super) type Instants = [(Instant, Parts); 9];

/// The fuller of two instants.
pub(super) fn fuller(a: Parts, b: Parts) -> Parts {
    if b.total() > a.total() { b } else { a }
}

/// The fullest instants of the backward, each with its bytes.
#[derive(Default)]
pub(super) struct Fullest {
    pub(super) head: (f64, Parts),
    pub(super) top: (f64, Parts),
    pub(super) bottom: (f64, Parts),
    pub(super) embedding: (f64, Parts),
}

impl Fullest {
    pub(super) fn note(&mut self, kind: BlockKind, lower: bool, place: Parts) {
        let slot = match kind {
            BlockKind::Head | BlockKind::FinalNorm if !lower => &mut self.head,
            BlockKind::Layer if !lower => &mut self.top,
            BlockKind::Embedding => &mut self.embedding,
            _ => &mut self.bottom,
        };
        let bytes = place.alone();
        if bytes > slot.0 {
            *slot = (bytes, place);
        }
    }
}
