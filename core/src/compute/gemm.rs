//! Time of one matrix multiplication: a roofline whose compute side knows tiles, waves and
//! alignment.

/// A product of an `m x k` and a `k x n` matrix, `count` of them side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of the output: tokens.
    pub m: f64,
    /// Columns of the output.
    pub n: f64,
    /// Summed dimension.
    pub k: f64,
    /// Equal products in one grouped kernel.
    pub count: f64,
}

/// Rows and columns of a tile.
const SIDES: [f64; 3] = [64.0, 128.0, 256.0];
/// Tiles the libraries choose from, as places in [`SIDES`], with the rate each reaches relative to
/// the best. Source: NVIDIA, Matrix Multiplication Background User's Guide (tile quantisation); the relative
/// rates follow the operands each tile reloads, (1/tm + 1/tn) against the 128 x 256 tile.
const TILES: [(usize, usize, f64); 6] =
    [(1, 2, 1.0), (2, 1, 1.0), (1, 1, 0.93), (0, 1, 0.80), (1, 0, 0.80), (0, 0, 0.65)];

/// Depth to which libraries split the sum of a product whose output is small, each part computed
/// beside the others. Source: NVIDIA CUTLASS, Efficient GEMM in CUDA (parallelized reductions).
const SPLIT_DEPTH: f64 = 4096.0;

/// Half a wave is lost at the tail of a kernel on average. Source: as above (wave quantisation).
const WAVE: f64 = 0.5;

impl Gemm {
    /// Arithmetic: a multiply-add counts as two.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.m * self.n * self.k * self.count
    }

    /// The product that gives the gradient of its input.
    #[must_use]
    pub const fn input_gradient(self) -> Self {
        Self { m: self.m, n: self.k, k: self.n, count: self.count }
    }

    /// The product that gives the gradient of its weight.
    #[must_use]
    pub const fn weight_gradient(self) -> Self {
        Self { m: self.n, n: self.k, k: self.m, count: self.count }
    }

    /// The product with its sum split: as many products of a shallower depth, each leaving a result.
    ///
    /// ```
    /// use shardwise::compute::{Gemm, shape_efficiency};
    /// // The gradient of a 3 x 3 filter over the pixels of 32 images.
    /// let deep = Gemm { m: 64.0, n: 576.0, k: 401_408.0, count: 1.0 };
    /// assert!((deep.split().flops() / deep.flops() - 1.0).abs() < 1e-12);
    /// assert!(shape_efficiency(&deep.split(), 132.0) > 10.0 * shape_efficiency(&deep, 132.0));
    /// ```
    #[must_use]
    pub fn split(self) -> Self {
        Self { k: self.k.min(SPLIT_DEPTH), count: self.count * (self.k / SPLIT_DEPTH).max(1.0), ..self }
    }

    /// Bytes read and written with operands of `operand` bytes and 16-bit results.
    #[must_use]
    pub fn bytes(&self, operand: f64, result: f64) -> f64 {
        self.count * (operand * (self.m * self.k + self.k * self.n) + result * self.m * self.n)
    }
}

/// The least whole number not below `x`, for `x` from 0; without SSE 4.1 the standard one is a call.
fn ceil(x: f64) -> f64 {
    // From here on every number is whole.
    if x >= 4_503_599_627_370_496.0 {
        return x;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 2^52")]
    let whole = x as i64 as f64;
    if whole < x { whole + 1.0 } else { whole }
}

/// Share of the tensor cores' rate that a dimension allows: operands must start on whole 128-byte
/// lines. Source: NVIDIA, as above (alignment); the step to 0.5 was measured on shards of width
/// 1800 (BLOOM trials, 25 to 30 % slower than width 1728).
fn alignment(x: f64) -> f64 {
    let whole = |unit: f64| ceil(x / unit) <= x / unit;
    if whole(64.0) {
        1.0
    } else if whole(32.0) {
        0.95
    } else {
        0.5
    }
}

/// Share of the best rate that a shape reaches on a part with `sms` multiprocessors, from 0 to 1:
/// the best tile's fill times its waves. The wave term `w / (w + 1/2)` stands for `w / ceil(w)`,
/// smooth and monotone.
///
/// ```
/// use shardwise::compute::{Gemm, shape_efficiency};
/// let large = Gemm { m: 8192.0, n: 8192.0, k: 8192.0, count: 1.0 };
/// let small = Gemm { m: 512.0, n: 1024.0, k: 1024.0, count: 1.0 };
/// assert!((shape_efficiency(&large, 132.0) - 0.969).abs() < 1e-3);
/// assert!((shape_efficiency(&small, 132.0) - 0.420).abs() < 1e-3);
/// ```
#[must_use]
#[expect(clippy::indexing_slicing, reason = "every place in TILES is one of the three sides")]
pub fn shape_efficiency(g: &Gemm, sms: f64) -> f64 {
    let useful = g.m * g.n * g.count;
    let (rows, columns) = (SIDES.map(|t| ceil(g.m / t)), SIDES.map(|t| ceil(g.n / t)));
    let mut best = 0.0_f64;
    for (i, j, rate) in TILES {
        // No tile reaches more than its rate, and the later ones reach no more than this one.
        if best >= rate {
            break;
        }
        let (tm, tn) = (SIDES[i], SIDES[j]);
        let tiles = rows[i] * columns[j] * g.count;
        let w = tiles / sms;
        let wave = if w >= 1.0 { w / (w + WAVE) } else { w / (1.0 + WAVE) };
        let fill = useful / (tiles * tm * tn);
        best = best.max(fill * wave * rate);
    }
    best * alignment(g.n).min(alignment(g.k))
}
