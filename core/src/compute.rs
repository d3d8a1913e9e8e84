//! Arithmetic: how many FLOPs each block needs, and how long they and the traffic beside them take
//! on one rank. Everything here is plain numbers of one micro-batch; the step room adds them up.

mod attention;
mod cost;
mod efficiency;
mod flops;
mod gemm;
mod machine;
mod profile;
mod walk;

pub use cost::{BlockCost, Parts, Slice};
pub use flops::{FlopCount, FlopRules, block_flops, selective, step_flops};
pub use gemm::{Gemm, shape_efficiency};
pub use machine::Machine;
pub use profile::{KernelStyle, Profile};
