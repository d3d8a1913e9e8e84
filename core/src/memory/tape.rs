//! A tape of primitive steps on tensors, as autograd sees them: which tensors each step keeps for
//! backward, and what is alive while the tape is walked back.
//!
//! Bytes kept are summed over *distinct storages*: views, a norm's output shared by three
//! projections, and a kernel's output that the next layer keeps are counted once. Autocast, frozen
//! weights, adapters and fused kernels follow from that rule (checked to the byte against real
//! PyTorch, see `tests/data/corpus/layer_activations.csv`).

use super::line::{Envelope, Line};

/// A tensor of the tape.
pub(super) type Id = usize;

#[derive(Clone, Copy, Debug)]
struct Tensor {
    elements: Line,
    width: f64,
    grad: bool,
    storage: usize,
}

#[derive(Clone, Copy, Debug)]
struct Storage {
    size: Line,
    /// First step that keeps it, hence the last to let it go.
    keeper: Option<u32>,
    /// Bytes that outlive the block: parameters and the like, never charged.
    free: bool,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    inputs: [Id; 3],
    arity: u8,
    output: Id,
    weight_grad: f64,
    temporary: Line,
    /// The output's gradient is the inputs' gradient: the same storage (add, view, reshape).
    passes: bool,
}

/// What one block costs in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockBytes {
    /// Kept from forward to backward when nothing is recomputed.
    pub(super) kept: Line,
    /// Alive while the block's backward runs, at its fullest instants: what is still kept, the
    /// gradients of activations and weights made so far, and temporaries.
    pub(super) backward: Envelope,
    /// Gradients of the block's weights, all made.
    pub(super) weight_grads: f64,
    /// Autocast's copies of weights that autograd keeps.
    pub(super) weight_copies: f64,
    /// The block's input, which is what recomputation keeps.
    pub(super) input: Line,
    /// No checkpoint wraps it: it is kept whole whatever is recomputed.
    pub(super) pinned: bool,
}

/// A tape under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    tensors: Vec<Tensor>,
    storages: Vec<Storage>,
    steps: Vec<Step>,
    weight_copies: f64,
}

impl Tape {
    pub(super) fn with_capacity(n: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(n),
            storages: Vec::with_capacity(n),
            steps: Vec::with_capacity(n),
            weight_copies: 0.0,
        }
    }

    /// A new tensor with a storage of its own.
    pub(super) fn tensor(&mut self, elements: Line, width: f64, grad: bool) -> Id {
        self.storages.push(Storage { size: elements * width, keeper: None, free: false });
        self.tensors.push(Tensor { elements, width, grad, storage: self.storages.len() - 1 });
        self.tensors.len() - 1
    }

    /// A tensor whose storage belongs to something that lives on anyway.
    pub(super) fn borrowed(&mut self, elements: Line, width: f64, grad: bool) -> Id {
        let id = self.tensor(elements, width, grad);
        if let Some(s) = self.storages.last_mut() {
            s.free = true;
        }
        id
    }

    /// A view: other elements of the same storage.
    pub(super) fn view(&mut self, of: Id, elements: Line) -> Id {
        let t = self.at(of);
        self.tensors.push(Tensor { elements, ..t });
        self.tensors.len() - 1
    }

    fn at(&self, id: Id) -> Tensor {
        self.tensors.get(id).copied().unwrap_or(Tensor {
            elements: Line::ZERO,
            width: 0.0,
            grad: false,
            storage: 0,
        })
    }

    pub(super) fn elements(&self, id: Id) -> Line {
        self.at(id).elements
    }

    pub(super) fn width(&self, id: Id) -> f64 {
        self.at(id).width
    }

    pub(super) fn grad(&self, id: Id) -> bool {
        self.at(id).grad
    }

    pub(super) fn bytes(&self, id: Id) -> Line {
        let t = self.at(id);
        t.elements * t.width
    }

    /// Records that the last step keeps `id` for its backward.
    pub(super) fn keep(&mut self, id: Id) {
        let step = u32::try_from(self.steps.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let storage = self.at(id).storage;
        if let Some(s) = self.storages.get_mut(storage) {
            s.keeper.get_or_insert(step);
        }
    }

    /// A step from `inputs` to `output`; keeps are recorded after it with [`Tape::keep`].
    pub(super) fn step(&mut self, inputs: &[Id], output: Id) -> &mut Self {
        let mut places = [output; 3];
        for (p, &i) in places.iter_mut().zip(inputs) {
            *p = i;
        }
        let arity = u8::try_from(inputs.len().min(3)).unwrap_or(3);
        self.steps.push(Step {
            inputs: places,
            arity,
            output,
            weight_grad: 0.0,
            temporary: Line::ZERO,
            passes: false,
        });
        self
    }

    /// The last step passes its gradient on by reference.
    pub(super) fn passes(&mut self) -> &mut Self {
        if let Some(s) = self.steps.last_mut() {
            s.passes = true;
        }
        self
    }

    /// The last step makes a weight gradient of so many bytes.
    pub(super) fn weight_grad(&mut self, bytes: f64) -> &mut Self {
        if let Some(s) = self.steps.last_mut() {
            s.weight_grad += bytes;
        }
        self
    }

    /// The last step's backward needs so much for itself.
    pub(super) fn temporary(&mut self, bytes: Line) -> &mut Self {
        if let Some(s) = self.steps.last_mut() {
            s.temporary += bytes;
        }
        self
    }

    /// A copy of a weight in the compute type that lives until backward.
    pub(super) fn weight_copy(&mut self, bytes: f64) {
        self.weight_copies += bytes;
    }

    /// Bytes kept and the walk back, given the block's input and output.
    pub(super) fn finish(&self, input: Id, output: Id) -> BlockBytes {
        let mut kept = Line::ZERO;
        for s in &self.storages {
            if s.keeper.is_some() && !s.free {
                kept += s.size;
            }
        }
        let (backward, weight_grads) = self.walk(output, kept);
        BlockBytes {
            kept,
            backward,
            weight_grads,
            weight_copies: self.weight_copies,
            input: self.bytes(input),
            pinned: false,
        }
    }

    /// Walks the steps backwards. At each one are alive: what is kept and not yet let go, the
    /// gradients of activations not yet consumed, the weight gradients so far, and what this step
    /// itself makes.
    fn walk(&self, output: Id, kept: Line) -> (Envelope, f64) {
        let mut envelope = Envelope::default();
        let mut remaining = kept;
        let mut weight_grads = 0.0;
        // Gradients of activations: how large, and how many tensors share each.
        let mut grads: Vec<(Line, u32)> = Vec::with_capacity(self.tensors.len());
        let mut of: Vec<Option<usize>> = vec![None; self.tensors.len()];
        let mut alive = Line::ZERO;
        let first = self.bytes(output);
        grads.push((first, 1));
        alive += first;
        if let Some(slot) = of.get_mut(output) {
            *slot = Some(0);
        }
        envelope.include(remaining + alive);
        for (index, step) in self.steps.iter().enumerate().rev() {
            let taken = of.get_mut(step.output).and_then(Option::take);
            let inputs = step.inputs.get(..usize::from(step.arity)).unwrap_or_default();
            if let Some(g) = taken {
                let mut made = Line::ZERO;
                for &i in inputs {
                    if self.grad(i) && !step.passes {
                        made += self.bytes(i);
                    }
                }
                envelope.include(
                    remaining + alive + made + step.temporary + Line::fixed(weight_grads + step.weight_grad),
                );
                for &i in inputs {
                    if !self.grad(i) {
                        continue;
                    }
                    let had = of.get(i).copied().flatten();
                    match (had, step.passes) {
                        // Accumulated in place into the gradient that was there.
                        (Some(_), _) => {}
                        (None, true) => {
                            if let (Some(slot), Some(shared)) = (of.get_mut(i), grads.get_mut(g)) {
                                *slot = Some(g);
                                shared.1 += 1;
                            }
                        }
                        (None, false) => {
                            let size = self.bytes(i);
                            grads.push((size, 1));
                            alive += size;
                            if let Some(slot) = of.get_mut(i) {
                                *slot = Some(grads.len() - 1);
                            }
                        }
                    }
                }
                if let Some(own) = grads.get_mut(g) {
                    own.1 -= 1;
                    if own.1 == 0 {
                        alive = alive - own.0;
                    }
                }
                weight_grads += step.weight_grad;
            }
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            for s in &self.storages {
                if s.keeper == Some(index) && !s.free {
                    remaining = remaining - s.size;
                }
            }
        }
        envelope.include(remaining + alive + Line::fixed(weight_grads));
        (envelope, weight_grads)
    }
}
