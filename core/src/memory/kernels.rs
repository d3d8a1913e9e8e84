//! What PyTorch's kernels take from the allocator for themselves while they run.

use super::line::Line;
use crate::quantity::count;

/// Workspace of a cuBLAS matrix multiplication on Hopper and later, given back afterwards.
///
/// Source: `getChosenWorkspaceSize`, aten/src/ATen/cuda/CublasHandlePool.cpp, PyTorch 2.15 (32 MiB
/// for compute capability 9.0; 2.11 and before keep it for good).
pub(super) const GEMM_WORKSPACE: Line = Line::fixed(32.0 * 1024.0 * 1024.0);

/// Streaming multiprocessors and resident threads of each, which size a split reduction (H100).
const PROCESSORS: u64 = 132;
const RESIDENT_THREADS: u64 = 2048;

/// Bytes of the partial sums when a `rows x columns` matrix is summed over its rows, as the
/// gradients of biases and norm weights are.
///
/// Source: `setReduceConfig` and `global_memory_size`, aten/src/ATen/native/cuda/Reduce.cuh,
/// PyTorch 2.15: a block of 512 / v threads holds `w` columns of `v` elements and `h` rows; when
/// each thread would add 256 values or more the rows are split over `c` blocks, and each block
/// leaves `4 w v` bytes per column.
pub(super) fn column_sum(columns: f64, rows: f64) -> f64 {
    if columns < 1.0 || rows < 1024.0 {
        return 0.0;
    }
    let (n, rows) = (count(columns), count(rows));
    let vector = if n.is_multiple_of(4) {
        4
    } else if n.is_multiple_of(2) {
        2
    } else {
        1
    };
    let most = 512 / vector;
    let power = |x: u64| if x >= most { most } else { 1 << x.max(1).ilog2() };
    let (wide, high) = (power(n / vector), power(rows));
    let height = high.min(most / wide.min(32));
    let width = wide.min(most / height.max(1));
    let each = rows.div_ceil(height.max(1));
    let grid = (n / vector).div_ceil(width.max(1));
    let target = PROCESSORS * (RESIDENT_THREADS / (width * height).max(1));
    if each < 256 || grid > target {
        return 0.0;
    }
    let blocks = target.div_ceil(grid).clamp(each.div_ceil(256), each.div_ceil(16));
    if blocks <= 1 {
        return 0.0;
    }
    4.0 * columns * (blocks * width * vector) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_sums_are_those_of_the_allocator() {
        // Traced: 96 MiB for 3072 x 4096, 136 MiB for 3072 x 16384.
        let mib = 1024.0 * 1024.0;
        for (columns, rows, traced) in
            [(4096.0, 3072.0, 96.0), (16_384.0, 3072.0, 136.0), (4096.0, 512.0, 0.0)]
        {
            assert!((column_sum(columns, rows) / mib - traced).abs() < 1e-9, "{columns} x {rows}");
        }
    }
}
