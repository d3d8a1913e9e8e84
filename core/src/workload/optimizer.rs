//! The optimizers, each with what it keeps, what its step takes for itself and what it moves. A new
//! one is a word of the vocabulary and a row of the table below it, which the compiler asks for.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// The optimizer and its implementation.
    Optimizer {
        /// AdamW, PyTorch's default multi-tensor loop (foreach).
        Adamw = "adamw" | "adamw_foreach" | "adam",
        /// AdamW in one fused kernel.
        AdamwFused = "adamw_fused",
        /// AdamW, one parameter at a time.
        AdamwLoop = "adamw_loop",
        /// AdamW with 8-bit block-wise states.
        Adamw8bit = "adamw_8bit" | "adamw_bnb_8bit",
        /// AdamW with 4-bit states.
        Adamw4bit = "adamw_4bit",
        /// AdamW with states in unified memory that can leave the device.
        PagedAdamw = "paged_adamw",
        /// 8-bit AdamW with states in unified memory.
        PagedAdamw8bit = "paged_adamw_8bit",
        /// AdamW with bf16 states whatever the parameters' format.
        AdamwBf16States = "adamw_bf16_states",
        /// AdamW on the CPU.
        CpuAdam = "cpu_adam",
        /// Adafactor: row and column statistics only.
        Adafactor = "adafactor",
        /// Lion: one moment.
        Lion = "lion",
        /// Muon on matrices, AdamW on the rest.
        Muon = "muon",
        /// AdamW in a low-rank gradient subspace.
        Galore = "galore",
        /// Updates during backward, no states.
        Lomo = "lomo",
        /// AdamW on one block at a time.
        Badam = "badam",
        /// Zeroth-order: no gradients, no states.
        Mezo = "mezo",
        /// Plain gradient descent.
        Sgd = "sgd",
        /// Gradient descent with momentum.
        SgdMomentum = "sgd_momentum" | "sgdm",
    } default Adamw
}

/// What an optimizer costs, whatever the framework around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OptimizerCosts {
    /// What it keeps between steps.
    pub states: States,
    /// What its step allocates for itself.
    pub step: Temporaries,
    /// Most bytes per trained parameter that its step moves.
    pub traffic: f64,
    /// Where the states rest.
    pub home: Home,
}

/// States per trained parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum States {
    /// So many numbers in the parameter's type.
    OfWidth(f64),
    /// So many bytes, whatever that type.
    Bytes(f64),
}

impl States {
    /// Bytes per trained parameter of that width.
    pub(crate) const fn bytes(self, width: f64) -> f64 {
        match self {
            Self::OfWidth(numbers) => numbers * width,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// What a step allocates for itself.
///
/// Source: torch.optim: the multi-tensor (foreach) path makes one copy in the parameters' type,
/// the fused kernel none, the loop two of the tensor at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Temporaries {
    /// Nothing.
    None,
    /// A copy of the trained parameters, by PyTorch's multi-tensor path.
    Foreach,
    /// A copy of the trained parameters, by a path of its own.
    Copy,
    /// Two of the largest tensor.
    Loop,
}

/// Where the states rest between steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Home {
    /// On the device.
    Device,
    /// In unified memory that leaves the device, but for so many bytes per parameter.
    Paged(f64),
    /// On the host, where the step runs too.
    Host,
}

/// fp32 scales of two one-byte moments, one per 256 elements each (bitsandbytes).
const SCALES: f64 = 2.0 * 4.0 / 256.0;

impl Optimizer {
    /// The table.
    ///
    /// States: torch.optim (in the parameters' type); bitsandbytes (one byte a state and an fp32
    /// absmax per 256-element block: 2 x (1 + 4/256) = 2.03125 bytes); torchao 4-bit AdamW
    /// (2 x (0.5 + 4/128)); Shazeer 2018 (Adafactor keeps a row and a column); `GaLore`: two moments
    /// in a quarter of the hidden rank, and the projector.
    ///
    /// Traffic: fused Adam reads parameter, gradient and two moments and writes three of them (28 B in
    /// fp32), and the gradient norm reads gradients once more; moments of one byte are 4 + 4 + 1 + 1
    /// read, 4 + 1 + 1 written. 80 bounds what is left to the framework.
    pub(crate) const fn costs(self) -> OptimizerCosts {
        use Home::{Device, Host, Paged};
        use States::{Bytes, OfWidth};
        use Temporaries::{Copy, Foreach, Loop, None};
        let (states, step, traffic, home) = match self {
            Self::Adamw => (OfWidth(2.0), Foreach, 80.0, Device),
            Self::AdamwFused => (OfWidth(2.0), None, 32.0, Device),
            Self::AdamwLoop => (OfWidth(2.0), Loop, 80.0, Device),
            Self::Adamw8bit => (Bytes(2.0 + SCALES), None, 20.0, Device),
            Self::Adamw4bit => (Bytes(2.0 * (0.5 + 4.0 / 128.0)), None, 18.0, Device),
            Self::PagedAdamw => (OfWidth(2.0), None, 80.0, Paged(0.0)),
            Self::PagedAdamw8bit => (Bytes(2.0 + SCALES), None, 20.0, Paged(SCALES)),
            Self::AdamwBf16States => (Bytes(4.0), Copy, 24.0, Device),
            Self::CpuAdam => (OfWidth(2.0), None, 80.0, Host),
            Self::Adafactor => (OfWidth(0.0), None, 80.0, Device),
            Self::Lion => (OfWidth(1.0), None, 24.0, Device),
            Self::Muon => (OfWidth(1.0), Loop, 80.0, Device),
            Self::Galore => (OfWidth(0.5), Loop, 80.0, Device),
            Self::Lomo => (OfWidth(0.0), None, 16.0, Device),
            Self::Badam => (OfWidth(0.0), None, 80.0, Device),
            Self::Mezo => (OfWidth(0.0), None, 16.0, Device),
            Self::Sgd => (OfWidth(0.0), None, 16.0, Device),
            Self::SgdMomentum => (OfWidth(1.0), None, 24.0, Device),
        };
        OptimizerCosts { states, step, traffic, home }
    }
}
