//! Which operations of a layer a named part covers when selective recomputation runs it again.

use super::{Layout, Recompute, RecomputeModule};
use crate::workload::OpKind;

/// The parts of a layer that selective recomputation runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of the layer")]
pub struct Again {
    core: bool,
    qkv: bool,
    attention: bool,
    norms: bool,
    activation: bool,
    mlp: bool,
    named: bool,
}

impl Again {
    /// The parts that a layout names, or `core_attn` where it names none.
    ///
    /// ```
    /// use shardwise::Layout;
    /// use shardwise::layout::{Again, Recompute, RecomputeModule};
    /// let mut layout = Layout { recompute: Recompute::Selective, ..Layout::default() };
    /// assert!(!Again::of(&layout).is_named());
    /// layout.recompute_modules.push(RecomputeModule::Mlp);
    /// assert!(Again::of(&layout).is_named());
    /// ```
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        Self {
            core: layout.recomputes(RecomputeModule::CoreAttn),
            qkv: layout.recomputes(RecomputeModule::Qkv),
            attention: layout.recomputes(RecomputeModule::Attention),
            norms: layout.recomputes(RecomputeModule::Layernorm),
            activation: layout.recomputes(RecomputeModule::Activation),
            mlp: layout.recomputes(RecomputeModule::Mlp),
            named: layout.recompute == Recompute::Selective && !layout.recompute_modules.is_empty(),
        }
    }

    /// Whether the layout names the parts: without, the framework's own policy holds.
    #[must_use]
    pub const fn is_named(self) -> bool {
        self.named
    }

    /// Whether an operation runs again. `attended` says that the layer's attention came before it.
    #[must_use]
    pub fn runs(self, op: &OpKind, attended: bool) -> bool {
        self.core && matches!(op, OpKind::Attention(_)) || self.drops(op, attended)
    }

    /// Whether what an operation makes is not kept. The core of attention keeps its output and drops
    /// what lies between.
    pub(crate) fn drops(self, op: &OpKind, attended: bool) -> bool {
        match op {
            OpKind::Norm(_) => self.norms,
            OpKind::Rotary(_) => self.qkv || self.attention,
            OpKind::Attention(_) => self.attention,
            OpKind::Activation(_) | OpKind::Product => self.activation || self.mlp,
            OpKind::Experts(_) => self.mlp,
            OpKind::Linear(l) if is_attention(l.name) => self.attention || self.qkv && !attended,
            OpKind::Linear(_) => self.mlp,
            _ => false,
        }
    }
}

/// Whether a linear layer belongs to attention, by its name.
fn is_attention(name: &str) -> bool {
    name.starts_with(['q', 'k', 'v', 'o']) || matches!(name, "c_attn" | "Wqkv" | "query_key_value" | "dense")
}
