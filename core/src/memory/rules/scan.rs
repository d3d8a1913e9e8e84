//! The selective state-space mixer.

use super::super::line::Line;
use super::{Origin, Place, Reader};
use crate::workload::Scan;

const FP32: f64 = 4.0;

impl Reader<'_, '_> {
    /// Mamba's mixer on its own kernels: the convolution keeps its input and output, the scan its
    /// inputs (x, dt, B, C, z) and a state per chunk of tokens.
    pub(super) fn scan(&mut self, x: Place, gate: Place, s: &Scan) -> Place {
        let m = self.mode;
        if s.heads == 0 && !m.fused() {
            return self.eager_scan(x, gate, s);
        }
        let inner = s.inner as f64;
        let convolved = self.like(x.id);
        self.tape.step(&[x.id], convolved);
        self.tape.keep(x.id);
        self.tape.keep(convolved);
        if m.train_base {
            self.tape.weight_grad((s.convolved() * (s.taps + 1)) as f64 * m.weight);
        }
        if s.heads > 0 {
            // The second form's kernel takes the convolved channels, the steps and the gate.
            let out = self.tape.tensor(Line::per_token(inner), m.compute, self.tape.grad(convolved));
            self.tape.step(&[convolved, gate.id], out);
            self.tape.keep(gate.id);
            return Place { id: out, cut: x.cut, origin: Origin::Other };
        }
        let projected = self.tape.tensor(
            Line::per_token((s.rank + 2 * s.state) as f64),
            m.compute,
            self.tape.grad(convolved),
        );
        self.tape.step(&[convolved], projected);
        self.tape.keep(convolved);
        let step = self.tape.tensor(self.tape.elements(x.id), m.compute, self.tape.grad(projected));
        self.tape.step(&[projected], step);
        self.tape.keep(projected);
        if m.train_base {
            let projections = inner * (s.rank + 2 * s.state) as f64 + s.rank as f64 * inner + inner;
            self.tape.weight_grad(projections * m.weight);
        }
        let out = self.like(x.id);
        self.tape.step(&[convolved, step, gate.id], out);
        self.tape.keep(convolved);
        self.tape.keep(step);
        self.tape.keep(gate.id);
        if m.train_base {
            self.tape.weight_grad((inner * s.state as f64 + inner) * m.weight);
        }
        Place { id: out, cut: x.cut, origin: Origin::Other }
    }

    /// The mixer as Transformers writes it where the kernels are missing: the discretised A and B
    /// for every channel, state and token in fp32, and a state per token, kept twice where it is
    /// narrowed for the product with C.
    ///
    /// Source: `MambaMixer.slow_forward`, Transformers 5.24, against real PyTorch.
    fn eager_scan(&mut self, x: Place, gate: Place, s: &Scan) -> Place {
        let m = self.mode;
        let (inner, state) = (s.inner as f64, s.state as f64);
        let channels = self.tape.elements(x.id);
        let cells = Line::per_token(inner * state);
        let convolved = self.like(x.id);
        self.tape.step(&[x.id], convolved);
        self.tape.keep(x.id);
        let active = self.like(x.id);
        self.tape.step(&[convolved], active);
        self.tape.keep(convolved);
        // Token by token again for the projections.
        let flat = self.like(x.id);
        self.tape.step(&[active], flat);
        let steering = self.tape.tensor(Line::per_token(s.steering() as f64), m.compute, true);
        self.tape.step(&[flat], steering).workspace();
        self.tape.keep(flat);
        let raised = self.tape.tensor(channels, m.compute, true);
        self.tape.step(&[steering], raised).workspace();
        self.tape.keep(steering);
        let step = self.like(raised);
        self.tape.step(&[raised], step);
        self.tape.keep(raised);
        // exp(A dt), then dt B x.
        let decay = self.tape.tensor(cells, FP32, true);
        self.tape.step(&[step], decay);
        self.tape.keep(step);
        self.tape.keep(decay);
        let input = self.tape.tensor(cells, FP32, true);
        self.tape.step(&[step, steering], input);
        let narrow = self.tape.tensor(Line::per_token(state), FP32, true);
        self.tape.keep(narrow);
        let wide = self.cast(active, FP32);
        let driven = self.tape.tensor(cells, FP32, true);
        self.tape.step(&[input, wide], driven);
        self.tape.keep(input);
        self.tape.keep(wide);
        // The recurrence; the gradient of each token's slice is filled into zeros of full size.
        let states = self.tape.tensor(cells, FP32, true);
        let full = self.tape.bytes(states);
        self.tape.step(&[decay, driven], states).temporary(full);
        self.tape.keep(states);
        let narrowed = self.cast(states, m.compute);
        let summed = self.tape.tensor(channels, FP32, true);
        self.tape.step(&[narrowed], summed);
        if narrowed != states {
            self.tape.keep(narrowed);
        }
        let gated = self.like(gate.id);
        self.tape.step(&[gate.id], gated);
        self.tape.keep(gate.id);
        let out = self.like(x.id);
        self.tape.step(&[summed, gated], out);
        self.tape.keep(active);
        self.tape.keep(summed);
        self.tape.keep(gated);
        if m.train_base {
            self.tape.weight_grad(s.parameters() as f64 * m.weight);
        }
        Place { id: out, cut: x.cut, origin: Origin::Other }
    }
}
