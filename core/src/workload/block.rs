//! The one shared representation: a model is a list of blocks, a block a list of operations on
//! named tensors. Each room to the right reads the same list its own way: parameters here, bytes
//! kept for backward in `memory`, arithmetic and traffic in `compute`.

mod builder;

pub use builder::BlockBuilder;

/// Names a tensor inside one block. Slot 0 is the block's input, slot 1 the encoder's output
/// (cross-attention only).
pub type Slot = u16;

/// The block's input.
pub const INPUT: Slot = 0;
/// The encoder's output, as a decoder block sees it.
pub const MEMORY: Slot = 1;

/// Which tokens flow through a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The tokens of the sequence that is trained on (decoder tokens of an encoder-decoder).
    Main,
    /// The encoder's tokens.
    Encoder,
    /// One vector a sequence: a class token picked out of the others.
    Sequence,
}

/// How tensor parallelism cuts a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// By output features: inputs whole, outputs cut.
    Column,
    /// By input features: inputs cut, outputs summed.
    Row,
    /// By vocabulary entries.
    Vocabulary,
    /// Not cut.
    Replicated,
}

/// A matrix multiplication with a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Module name, by which adapters and quantisation address it.
    pub name: &'static str,
    /// Input features.
    pub inputs: u64,
    /// Output features.
    pub outputs: u64,
    /// Whether it adds a bias.
    pub bias: bool,
    /// Whether the weight is another module's (a tied head), so counted there.
    pub tied: bool,
    /// How tensor parallelism cuts it.
    pub split: Split,
}

/// The normalisations in use. They differ in what the eager implementation keeps for backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Root mean square in fp32, cast back, then times the weight (Llama).
    Rms,
    /// Root mean square, times the weight in fp32, then cast back (OLMo-2).
    RmsUpcast,
    /// Root mean square, times one plus the weight in fp32, then cast back (Gemma).
    RmsOffset,
    /// Root mean square whose statistics alone are fp32 (T5).
    RmsT5,
    /// Mean and variance, one kernel.
    Layer {
        /// Whether it adds a bias.
        bias: bool,
    },
    /// Root mean square without a weight.
    RmsPlain,
    /// Mean and variance, one kernel, without weight or bias.
    LayerPlain,
    /// The same on an fp32 copy, cast back (`OLMo`).
    LayerPlainFp32,
    /// Mean and variance written out in Python in fp32, times the weight in fp32, then cast back
    /// (Cohere).
    LayerUpcast,
}

/// Whose weight normalises a vector when a token holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWeight {
    /// All vectors share one (QK-norm).
    Shared,
    /// Each vector has its own, all in one tensor (Cohere's QK-norm).
    Own,
    /// Each vector has its own module and tensor; the results are concatenated (`StableLM`'s
    /// QK-norm).
    OwnModules,
}

/// A normalisation of `groups` vectors of `width` elements a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Which one.
    pub kind: NormKind,
    /// Elements of one vector (and of the weight).
    pub width: u64,
    /// Vectors per token: 1, or the heads of a QK-norm.
    pub groups: u64,
    /// Whose weight each vector uses.
    pub weights: GroupWeight,
    /// Whether the vectors are cut with the heads under tensor parallelism.
    pub split: Split,
}

/// How a rotary embedding is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryKind {
    /// `x cos + rotate_half(x) sin` on the whole head.
    Half,
    /// The two halves rotated apart and concatenated (GPT-OSS).
    Chunked,
    /// On the first part of the head; the rest is concatenated behind it.
    Partial,
    /// On interleaved pairs of part of the head (GPT-J).
    Interleaved,
    /// As complex numbers in fp32 (DeepSeek-V2).
    Complex,
    /// As `Partial`, on interleaved pairs; cosine and sine are spread anew in each layer (GLM).
    PartialInterleaved,
}

/// A rotary position embedding of one tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// How it is written.
    pub kind: RotaryKind,
    /// Heads.
    pub heads: u64,
    /// Elements per head.
    pub head: u64,
    /// Elements per head that are rotated.
    pub rotated: u64,
}

/// What is added to the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionBias {
    /// Nothing but the causal mask.
    None,
    /// Linear biases by distance, as an added tensor.
    Alibi,
    /// A learned table of relative positions (T5), the same for the whole batch.
    Relative,
    /// One tensor that all layers share (T5's cross-attention adds zeros).
    Shared,
}

/// Scaled dot-product attention; inputs are q, k, v.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of some family's code")]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Elements per head of q and k.
    pub qk_head: u64,
    /// Elements per head of v.
    pub v_head: u64,
    /// Whether a token sees only the tokens before it.
    pub causal: bool,
    /// Sliding window in tokens.
    pub window: Option<u64>,
    /// What is added to the scores.
    pub bias: AttentionBias,
    /// Dropout probability on the weights is above zero.
    pub dropout: bool,
    /// Scores pass through `cap tanh(x / cap)`.
    pub softcap: bool,
    /// A learned sink logit per head joins the softmax.
    pub sinks: bool,
    /// Keys and values come from the encoder.
    pub cross: bool,
    /// A single key and value head is broadcast by the products themselves, not expanded before
    /// (Falcon).
    pub broadcast: bool,
    /// Eager code computes the softmax in fp32 and casts back.
    pub softmax_fp32: bool,
    /// Eager code multiplies fp32 copies of q and k (GPT-J).
    pub scores_fp32: bool,
    /// The library has no fused kernel for this family, so `sdpa` falls back to eager.
    pub eager_only: bool,
    /// The library passes an explicit mask even without padding, so flash cannot run.
    pub masked: bool,
}

/// Pointwise activation functions, by how they are implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One kernel; keeps its input.
    Silu,
    /// One kernel (erf or tanh); keeps its input.
    Gelu,
    /// The tanh form written out in Python (GPT-2, GPT-J, Phi).
    GeluNew,
    /// The fast tanh form written out in Python (GPT-NeoX-20B).
    GeluFast,
    /// BLOOM's own autograd function; keeps its input.
    GeluBloom,
    /// Keeps its output.
    Relu,
    /// Keeps its output.
    Sigmoid,
    /// Keeps its output.
    Tanh,
    /// Relu, then squared.
    ReluSquared,
}

/// How router weights are made from logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterKind {
    /// fp32 softmax over all experts, top-k, cast to the compute type.
    SoftmaxTopK,
    /// As above but renormalised over the chosen.
    SoftmaxTopKNormalised,
    /// Softmax over the chosen logits only (GPT-OSS).
    TopKSoftmax,
    /// fp32 softmax on an fp32 copy of the hidden state, weights kept in fp32 (Mixtral's weights,
    /// DeepSeek-V2's copy).
    SoftmaxFp32Weights,
    /// fp32 linear on an fp32 copy of the hidden state, softmax, top-k (DeepSeek-V2).
    SoftmaxFp32Input,
    /// fp32 linear on an fp32 copy, sigmoid scores with a correction bias (DeepSeek-V3).
    SigmoidFp32Input,
    /// Top-k, then the sigmoid of the chosen logits in fp32 (Llama 4); weighs the experts' input.
    TopKSigmoid,
    /// Experts drawn one after the other, each by a softmax of its own (Phi-MoE).
    SparseMixer,
}

/// The router of a mixture of experts: its input is the hidden state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// How weights are made.
    pub kind: RouterKind,
    /// Hidden size.
    pub inputs: u64,
    /// Routed experts.
    pub experts: u64,
    /// Experts chosen per token.
    pub top_k: u64,
    /// Whether its linear has a bias.
    pub bias: bool,
}

/// How an expert combines its two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertsKind {
    /// `act(gate) * up`.
    Gated,
    /// The same, for which Transformers' own code sends every token through every expert (Llama 4).
    GatedRepeated,
    /// Clamped halves, `(up + 1) * gate * sigmoid(alpha gate)`, with biases (GPT-OSS).
    GatedClamped,
    /// One activation, no gate.
    Plain,
}

/// The routed experts; inputs are the hidden state and the router's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// How halves combine.
    pub kind: ExpertsKind,
    /// Routed experts.
    pub experts: u64,
    /// Experts chosen per token.
    pub top_k: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Width of one expert.
    pub width: u64,
}

/// A learned table or loose parameter: embeddings, positions, class tokens, sinks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table {
    /// Parameter name.
    pub name: &'static str,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub width: u64,
    /// How tensor parallelism cuts it.
    pub split: Split,
    /// Whether the table is another module's (the decoder's embedding), so counted there.
    pub tied: bool,
}

/// A selective state-space mixer (Mamba), from the block's normed input to its output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Inner channels.
    pub inner: u64,
    /// State elements per channel.
    pub state: u64,
    /// Taps of the causal convolution.
    pub taps: u64,
    /// Rank of the time-step projection.
    pub rank: u64,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// Heads of the second form (Mamba-2), whose input projection gives B, C and the time steps
    /// too; 0 for the first form.
    pub heads: u64,
    /// Groups that share B and C in the second form.
    pub groups: u64,
}

impl Scan {
    /// Elements per token that go through the convolution.
    #[must_use]
    pub const fn convolved(&self) -> u64 {
        if self.heads > 0 { self.inner + 2 * self.groups * self.state } else { self.inner }
    }

    /// Elements per token of B, C and the time step.
    #[must_use]
    pub const fn steering(&self) -> u64 {
        if self.heads > 0 { 2 * self.groups * self.state + self.heads } else { self.rank + 2 * self.state }
    }

    /// Parameters of the mixer between its two projections.
    #[must_use]
    pub const fn parameters(&self) -> u64 {
        let bias = if self.conv_bias { self.convolved() } else { 0 };
        let convolution = self.convolved() * self.taps + bias;
        if self.heads > 0 {
            // Step bias, decay and skip of each head; the gated norm's weight.
            return convolution + 3 * self.heads + self.inner;
        }
        // B-C-step projection, step projection with bias, decay and skip.
        convolution
            + self.inner * self.steering()
            + self.rank * self.inner
            + self.inner
            + self.inner * self.state
            + self.inner
    }
}

/// One operation's kind and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OpKind {
    /// Matrix multiplication with a weight.
    Linear(Linear),
    /// Normalisation.
    Norm(Norm),
    /// Rotary position embedding.
    Rotary(Rotary),
    /// Attention.
    Attention(Attention),
    /// Pointwise activation.
    Activation(Act),
    /// Elementwise product of two tensors.
    Product,
    /// Residual addition.
    Add,
    /// Multiplication by a constant.
    Scale,
    /// `cap tanh(x / cap)`.
    Softcap,
    /// Random zeroing with probability above zero.
    Dropout,
    /// A view of part of a tensor: the same storage.
    View,
    /// A new tensor made of parts of the inputs.
    Assemble,
    /// Expert choice.
    Router(Router),
    /// The routed experts.
    Experts(Experts),
    /// State-space mixer.
    Scan(Scan),
    /// Look-up of each token in a table.
    Lookup(Table),
    /// A parameter that no other operation owns.
    Parameter(Table),
    /// The language-model loss: logits cast to fp32, labels shifted, cross-entropy.
    Loss,
    /// Cross-entropy on the logits in their own type, nothing shifted (BERT, T5, classifiers).
    PlainLoss,
    /// Values clamped in place (`OLMo`'s `clip_qkv`).
    Clamp,
    /// A cast to fp32 (the residual stream of Mamba).
    Upcast,
}

/// One operation of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Its inputs, unused places holding the output itself.
    pub inputs: [Slot; 3],
    /// How many of `inputs` are used.
    pub arity: u8,
    /// Its output.
    pub output: Slot,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Token (and position) embedding.
    Embedding,
    /// One layer of the stack.
    Layer,
    /// Final norm and whatever else lies between the stack and the head.
    FinalNorm,
    /// The head and the loss.
    Head,
}

/// A tensor of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotInfo {
    /// Elements per token.
    pub width: u64,
    /// Which tokens.
    pub stream: Stream,
}

/// A block: operations in forward order on its own tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it is for.
    pub kind: BlockKind,
    /// Which tokens flow through it.
    pub stream: Stream,
    /// Operations in forward order.
    pub ops: Vec<Op>,
    /// The tensors the operations name.
    pub slots: Vec<SlotInfo>,
    /// Elements of buffers (not parameters) it holds.
    pub buffers: u64,
    /// What a trace found, in place of operations.
    pub traced: Option<Box<super::traced::TracedPart>>,
}

impl Block {
    /// Parameters of the block, tied ones not counted.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let traced = self.traced.as_ref().map_or(0, |t| t.parameters);
        traced + self.ops.iter().map(|op| op.kind.parameters()).sum::<u64>()
    }

    /// Parameter tensors of the block.
    #[must_use]
    pub fn parameter_tensors(&self) -> u64 {
        let traced = self.traced.as_ref().map_or(0, |t| t.tensors);
        traced + self.ops.iter().map(|op| op.kind.parameter_tensors()).sum::<u64>()
    }

    /// Parameters of routed experts in the block.
    #[must_use]
    pub fn expert_parameters(&self) -> u64 {
        self.ops
            .iter()
            .filter(|op| matches!(op.kind, OpKind::Experts(_)))
            .map(|op| op.kind.parameters())
            .sum()
    }

    /// Parameters that one token passes through: of routed experts only the chosen.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        let traced = self.traced.as_ref().map_or(0, |t| t.parameters);
        let known: u64 = self
            .ops
            .iter()
            .map(|op| match op.kind {
                OpKind::Experts(e) => op.kind.parameters() / e.experts.max(1) * e.top_k,
                kind => kind.parameters(),
            })
            .sum();
        traced + known
    }
}

impl NormKind {
    /// Parameter tensors of one module: weight, bias, both or none.
    #[must_use]
    pub const fn tensors(self) -> u64 {
        match self {
            Self::Layer { bias: true } => 2,
            Self::RmsPlain | Self::LayerPlain | Self::LayerPlainFp32 => 0,
            _ => 1,
        }
    }
}

impl OpKind {
    /// Parameters the operation owns.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        match *self {
            Self::Linear(l) if l.tied => u64::from(l.bias) * l.outputs,
            Self::Linear(l) => l.inputs * l.outputs + u64::from(l.bias) * l.outputs,
            Self::Norm(n) => {
                let weights = match n.weights {
                    GroupWeight::Shared => n.width,
                    GroupWeight::Own | GroupWeight::OwnModules => n.groups * n.width,
                };
                n.kind.tensors() * weights
            }
            Self::Router(r) => r.experts * r.inputs + u64::from(r.bias) * r.experts,
            Self::Experts(e) => {
                let up = match e.kind {
                    ExpertsKind::Plain => e.width,
                    ExpertsKind::Gated | ExpertsKind::GatedRepeated | ExpertsKind::GatedClamped => {
                        2 * e.width
                    }
                };
                let biases = match e.kind {
                    ExpertsKind::GatedClamped => up + e.hidden,
                    _ => 0,
                };
                e.experts * ((up + e.width) * e.hidden + biases)
            }
            Self::Scan(s) => s.parameters(),
            Self::Lookup(t) | Self::Parameter(t) if t.tied => 0,
            Self::Lookup(t) | Self::Parameter(t) => t.rows * t.width,
            _ => 0,
        }
    }

    /// Parameter tensors the operation owns.
    #[must_use]
    pub fn parameter_tensors(&self) -> u64 {
        match *self {
            Self::Linear(l) => u64::from(!l.tied) + u64::from(l.bias),
            Self::Norm(n) => match n.weights {
                GroupWeight::Shared | GroupWeight::Own => n.kind.tensors(),
                GroupWeight::OwnModules => n.groups * n.kind.tensors(),
            },
            Self::Router(r) => 1 + u64::from(r.bias),
            Self::Experts(e) => match e.kind {
                ExpertsKind::GatedClamped => 4,
                ExpertsKind::Gated | ExpertsKind::GatedRepeated | ExpertsKind::Plain => 2,
            },
            Self::Scan(s) if s.heads > 0 => 5 + u64::from(s.conv_bias),
            Self::Scan(s) => 6 + u64::from(s.conv_bias),
            Self::Lookup(t) | Self::Parameter(t) => u64::from(!t.tied),
            _ => 0,
        }
    }
}
