//! A tape of primitive steps on tensors, as autograd sees them: which tensors each step keeps for
//! backward, and what is alive while the tape is walked back.
//!
//! Bytes kept are summed over *distinct storages*: views, a norm's output shared by three
//! projections, and a kernel's output that the next layer keeps are counted once. Autocast, frozen
//! weights, adapters and fused kernels follow from that rule (checked to the byte against real
//! PyTorch, see `tests/data/corpus/layer_activations.csv`).

use super::kernels::GEMM_WORKSPACE;
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
    /// Kept by a step, or belongs to something that lives on anyway: never charged (again).
    charged: bool,
    /// Made again in backward.
    again: bool,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    inputs: [Id; 3],
    arity: u8,
    output: Id,
    weight_grad: f64,
    temporary: Line,
    /// Columns of a sum over the tokens that ends the step (gradient of a bias or norm weight).
    columns: f64,
    /// What only this step, and steps after it in backward, keep.
    released: Line,
    /// The output's gradient is the inputs' gradient: the same storage (add, view, reshape).
    passes: bool,
}

/// What one block costs in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockBytes {
    /// Kept from forward to backward when nothing is recomputed.
    pub(super) kept: Line,
    /// What is kept of the operations before the fullest of its units, also when it is recomputed.
    pub(super) before_unit: Line,
    /// Alive while the block's backward runs, at its fullest instants: what is still kept, the
    /// gradients of activations and weights made so far, and temporaries.
    pub(super) backward: Envelope,
    /// Gradients of the block's weights, all made.
    pub(super) weight_grads: f64,
    /// Of `kept`, autocast's copies of weights.
    pub(super) weight_copies: f64,
    /// The block's input, alive while it is recomputed and walked back.
    pub(super) input: Line,
    /// The block's output.
    pub(super) output: Line,
    /// What forward leaves of it when it is recomputed.
    pub(super) checkpoint: Line,
    /// What a checkpoint that saves matrix products and attention keeps beside the input.
    pub(super) selected: Line,
    /// Of `selected`, what recomputation stops before: it stays to the end of the block's backward.
    pub(super) unclaimed: Line,
    /// Of a traced part, the fullest instants of its forward.
    pub(super) forward: Envelope,
    /// Of a traced part, what the script holds from backward to the end of the step.
    pub(super) held: Line,
}

/// How the gradients of weights are stored while backward runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightGrads {
    /// Each stays until the block is done: first micro-batch.
    Stay,
    /// Each is added to one that is there already (or to a bucket) and freed.
    Join,
}

/// A tape under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    tensors: Vec<Tensor>,
    storages: Vec<Storage>,
    steps: Vec<Step>,
    weight_copies: f64,
    standing: Line,
    selected: Line,
    /// The last output that was selected.
    selected_last: Option<Id>,
    /// Tensors made from now on are made again in backward.
    again: bool,
    /// Of what is kept, what is made again.
    dropped: Line,
    /// The kernels are a processor's.
    on_processor: bool,
}

impl Tape {
    pub(super) fn with_capacity(n: usize, on_processor: bool) -> Self {
        Self {
            on_processor,
            tensors: Vec::with_capacity(n),
            storages: Vec::with_capacity(n),
            steps: Vec::with_capacity(n),
            weight_copies: 0.0,
            standing: Line::ZERO,
            selected: Line::ZERO,
            selected_last: None,
            again: false,
            dropped: Line::ZERO,
        }
    }

    /// Tensors made from now on are made again in backward, or not.
    pub(super) fn recompute(&mut self, again: bool) {
        self.again = again;
    }

    /// A tensor is made again in backward if another is.
    pub(super) fn recompute_with(&mut self, id: Id, other: Id) {
        let again = self.storages.get(self.at(other).storage).is_some_and(|s| s.again);
        let storage = self.at(id).storage;
        if let Some(s) = self.storages.get_mut(storage) {
            s.again = again;
        }
    }

    /// A new tensor with a storage of its own.
    pub(super) fn tensor(&mut self, elements: Line, width: f64, grad: bool) -> Id {
        self.storages.push(Storage { size: elements * width, charged: false, again: self.again });
        self.tensors.push(Tensor { elements, width, grad, storage: self.storages.len() - 1 });
        self.tensors.len() - 1
    }

    /// A tensor whose storage belongs to something that lives on anyway.
    pub(super) fn borrowed(&mut self, elements: Line, width: f64, grad: bool) -> Id {
        let id = self.tensor(elements, width, grad);
        if let Some(s) = self.storages.last_mut() {
            s.charged = true;
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

    /// Steps so far.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Records that the last step keeps `id` for its backward, if it has one. The first to keep a
    /// storage is the last to let it go.
    pub(super) fn keep(&mut self, id: Id) {
        self.keep_for(self.steps.len().saturating_sub(1), id);
    }

    /// Records that the steps from `first` on, which run again in backward, start from `id`.
    pub(super) fn starts_from(&mut self, first: usize, id: Id) {
        if !self.storages.get(self.at(id).storage).is_some_and(|s| s.again) {
            self.keep_for(first, id);
        }
    }

    fn keep_for(&mut self, step: usize, id: Id) {
        if !self.steps.get(step).is_some_and(|s| self.grad(s.output)) {
            return;
        }
        let storage = self.at(id).storage;
        if let (Some(s), Some(step)) = (self.storages.get_mut(storage), self.steps.get_mut(step))
            && !s.charged
        {
            s.charged = true;
            step.released += s.size;
            if s.again {
                self.dropped += s.size;
            }
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
            columns: 0.0,
            released: Line::ZERO,
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

    /// The last step multiplies matrices, which takes a library's workspace on an accelerator.
    pub(super) fn workspace(&mut self) -> &mut Self {
        if self.on_processor { self } else { self.temporary(GEMM_WORKSPACE) }
    }

    /// The last step ends by summing so many columns over the tokens; a processor leaves no partial
    /// sums.
    pub(super) fn columns(&mut self, columns: f64) -> &mut Self {
        let columns = if self.on_processor { 0.0 } else { columns };
        if let Some(s) = self.steps.last_mut() {
            s.columns = s.columns.max(columns);
        }
        self
    }

    /// The last step keeps a copy of a weight in the compute type.
    pub(super) fn weight_copy(&mut self, bytes: f64) {
        self.weight_copies += bytes;
        if let Some(s) = self.steps.last_mut() {
            s.released += Line::fixed(bytes);
        }
    }

    /// A checkpoint that chooses by operation saves this output.
    pub(super) fn select(&mut self, id: Id) {
        self.selected += self.bytes(id);
        self.selected_last = Some(id);
    }

    /// Of what is selected, the outputs that recomputation does not come to: it stops at the last step
    /// that keeps something, whose output is then still there. What it does come to takes the place of
    /// what it would make again.
    ///
    /// Source: `torch.utils.checkpoint` (`_CachedTorchDispatchMode`, early stop), traced.
    fn unclaimed(&self) -> Line {
        let last = self.steps.iter().rposition(|s| s.released != Line::ZERO).unwrap_or_default();
        let beyond = self.steps.iter().skip(last).any(|s| Some(s.output) == self.selected_last);
        self.selected_last.filter(|_| beyond).map_or(Line::ZERO, |id| self.bytes(id))
    }

    /// What the steps so far keep for backward.
    pub(super) fn kept(&self) -> Line {
        self.steps.iter().fold(Line::ZERO, |sum, s| sum + s.released)
    }

    /// A gradient that other blocks have begun is alive throughout the walk back.
    pub(super) fn standing(&mut self, bytes: Line) {
        self.standing += bytes;
    }

    /// Bytes kept and the walk back, given the block's input and output.
    /// `gathering` is a tensor whose gradient other blocks have begun.
    pub(super) fn finish(
        &self,
        input: Id,
        output: Id,
        gathering: Option<Id>,
        weight_grads: WeightGrads,
        recomputed: bool,
    ) -> BlockBytes {
        let kept = self.kept();
        let mut walk = Walk::new(self, kept, weight_grads, recomputed);
        for id in gathering.into_iter().chain([output]) {
            walk.receive(id);
        }
        for step in self.steps.iter().rev() {
            walk.back(step);
        }
        walk.note(Line::ZERO, 0.0);
        BlockBytes {
            kept: kept - self.dropped,
            before_unit: Line::ZERO,
            backward: walk.envelope,
            weight_grads: self.steps.iter().map(|s| s.weight_grad).sum(),
            weight_copies: self.weight_copies,
            input: self.bytes(input),
            output: self.bytes(output),
            checkpoint: self.bytes(input),
            selected: self.selected,
            unclaimed: self.unclaimed(),
            forward: Envelope::default(),
            held: Line::ZERO,
        }
    }
}

/// The steps walked backwards. At each one are alive: what is kept and not yet let go, the
/// gradients of activations not yet consumed, the weight gradients so far, and what the step
/// itself makes.
struct Walk<'t> {
    tape: &'t Tape,
    weight_grads: WeightGrads,
    recomputed: bool,
    envelope: Envelope,
    /// Kept tensors not yet let go.
    remaining: Line,
    /// Gradients of activations: how large, and how many tensors share each.
    grads: Vec<(Line, u32)>,
    /// Which of `grads` belongs to a tensor.
    of: Vec<Option<usize>>,
    /// Sum over `grads` that are shared by at least one tensor.
    alive: Line,
    /// Weight gradients that stay.
    made: f64,
}

impl<'t> Walk<'t> {
    fn new(tape: &'t Tape, kept: Line, weight_grads: WeightGrads, recomputed: bool) -> Self {
        Self {
            tape,
            weight_grads,
            recomputed,
            envelope: Envelope::default(),
            remaining: kept + tape.standing,
            grads: Vec::with_capacity(tape.steps.len() + 1),
            of: vec![None; tape.tensors.len()],
            alive: Line::ZERO,
            made: 0.0,
        }
    }

    fn note(&mut self, own: Line, columns: f64) {
        let line = self.remaining + self.alive + own + Line::fixed(self.made);
        self.envelope.include(line, Line::fixed(columns), Line::per_token(1.0));
    }

    /// A fresh gradient for `id`.
    fn receive(&mut self, id: Id) {
        let size = self.tape.bytes(id);
        self.grads.push((size, 1));
        self.alive += size;
        if let Some(slot) = self.of.get_mut(id) {
            *slot = Some(self.grads.len() - 1);
        }
    }

    fn back(&mut self, step: &Step) {
        let taken = self.of.get_mut(step.output).and_then(Option::take);
        let inputs = step.inputs.get(..usize::from(step.arity)).unwrap_or_default();
        if let Some(own) = taken {
            let mut made = Line::fixed(step.weight_grad);
            if !step.passes {
                for &i in inputs.iter().filter(|&&i| self.tape.grad(i)) {
                    made += self.tape.bytes(i);
                }
            }
            self.note(made + step.temporary, 0.0);
            if step.columns > 0.0 {
                // A recomputed tensor goes as soon as it has been used.
                let gone = if self.recomputed { step.released } else { Line::ZERO };
                self.note(made - gone, step.columns);
            }
            for &i in inputs.iter().filter(|&&i| self.tape.grad(i)) {
                match (self.of.get(i).copied().flatten(), step.passes) {
                    // Added in place to the gradient that was there.
                    (Some(_), _) => {}
                    (None, true) => {
                        if let (Some(slot), Some(shared)) = (self.of.get_mut(i), self.grads.get_mut(own)) {
                            *slot = Some(own);
                            shared.1 += 1;
                        }
                    }
                    (None, false) => self.receive(i),
                }
            }
            if let Some(own) = self.grads.get_mut(own) {
                own.1 -= 1;
                if own.1 == 0 {
                    self.alive = self.alive - own.0;
                }
            }
            if self.weight_grads == WeightGrads::Stay {
                self.made += step.weight_grad;
            }
        }
        self.remaining = self.remaining - step.released;
    }
}
