//! A small event simulation of the pipeline schedules, as the referee of the closed forms: every
//! rank runs its work by a simple rule, each piece when what it needs is there.

use shardwise::layout::Schedule;
use shardwise::pipeline::{Stage, bubble};

/// One kind of work on a micro-batch at a stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Input,
    Forward,
    Weight,
}

/// A piece of work: direction, stage, micro-batch.
type Piece = (usize, usize, usize);

/// A schedule as the simulation knows it.
#[derive(Clone)]
struct Rule {
    /// The rank of each stage of the model; one list per direction.
    routes: Vec<Vec<usize>>,
    /// Micro-batches of each direction.
    micro_batches: usize,
    /// Forwards a rank may be ahead of its backwards.
    limit: Vec<usize>,
    /// Gradients of weights may wait; else they run with those of inputs.
    splits: bool,
    /// All forwards come before the first backward.
    all_forward_first: bool,
}

/// What a rank did: when it began and ended, and how long it worked.
#[derive(Clone, Copy)]
struct Span {
    start: f64,
    end: f64,
    work: f64,
}

impl Rule {
    fn stages(&self) -> usize {
        self.routes[0].len()
    }

    /// Order of forwards on a rank with several chunks: groups of as many micro-batches as ranks,
    /// chunk by chunk (Narayanan 2021).
    fn order(&self, (_, s, i): Piece, backward: bool, ranks: usize) -> (usize, usize, usize) {
        let chunk = s / ranks;
        let chunk = if backward { self.stages() / ranks - chunk } else { chunk };
        (i / ranks, chunk, i)
    }
}

/// When each piece was done.
struct Done {
    forward: Vec<Vec<Vec<f64>>>,
    input: Vec<Vec<Vec<f64>>>,
    weight: Vec<Vec<Vec<f64>>>,
}

const NEVER: f64 = f64::INFINITY;

impl Done {
    fn ready(&self, rule: &Rule, kind: Kind, (d, s, i): Piece) -> f64 {
        match kind {
            Kind::Forward if s == 0 => 0.0,
            Kind::Forward => self.forward[d][s - 1][i],
            Kind::Input if rule.all_forward_first => {
                self.forward[d].iter().flatten().fold(self.gradient(rule, (d, s, i)), |a, &b| a.max(b))
            }
            Kind::Input => self.gradient(rule, (d, s, i)),
            Kind::Weight => self.input[d][s][i],
        }
    }

    fn gradient(&self, rule: &Rule, (d, s, i): Piece) -> f64 {
        let after = if s + 1 == rule.stages() { self.forward[d][s][i] } else { self.input[d][s + 1][i] };
        after.max(self.forward[d][s][i])
    }

    fn of(&mut self, kind: Kind) -> &mut Vec<Vec<Vec<f64>>> {
        match kind {
            Kind::Forward => &mut self.forward,
            Kind::Input => &mut self.input,
            Kind::Weight => &mut self.weight,
        }
    }
}

/// The next piece of a kind on a rank, by the schedule's order.
fn next(rule: &Rule, done: &mut Done, kind: Kind, rank: usize, ranks: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    for (d, route) in rule.routes.iter().enumerate() {
        let times = done.of(kind);
        let pieces = (0..route.len())
            .filter(|&s| route[s] == rank)
            .filter_map(|s| (0..rule.micro_batches).find(|&i| times[d][s][i] == NEVER).map(|i| (d, s, i)));
        out.extend(pieces.min_by_key(|&p| rule.order(p, kind != Kind::Forward, ranks)));
    }
    out
}

fn simulate(rule: &Rule, ranks: usize, time: impl Fn(usize) -> Stage) -> Vec<Span> {
    let empty = vec![vec![vec![NEVER; rule.micro_batches]; rule.stages()]; rule.routes.len()];
    let mut done = Done { forward: empty.clone(), input: empty.clone(), weight: empty };
    let mut spans = vec![Span { start: NEVER, end: 0.0, work: 0.0 }; ranks];
    let mut ahead = vec![0_usize; ranks];
    let total = rule.routes.len() * rule.stages() * rule.micro_batches * 3;
    for _ in 0..total {
        let mut best: Option<(f64, Kind, Piece, usize)> = None;
        for rank in 0..ranks {
            for kind in [Kind::Input, Kind::Forward, Kind::Weight] {
                if kind == Kind::Forward && ahead[rank] >= rule.limit[rank] {
                    continue;
                }
                for piece in next(rule, &mut done, kind, rank, ranks) {
                    let start = done.ready(rule, kind, piece).max(spans[rank].end);
                    if start < NEVER && best.is_none_or(|b| (start, kind, piece) < (b.0, b.1, b.2)) {
                        best = Some((start, kind, piece, rank));
                    }
                }
            }
        }
        let (start, kind, (d, s, i), rank) = best.expect("a piece can run");
        let t = time(rank);
        let cost = match (kind, rule.splits) {
            (Kind::Forward, _) => t.forward,
            (Kind::Input, true) => t.backward_input,
            (Kind::Input, false) => t.backward_input + t.backward_weight,
            (Kind::Weight, true) => t.backward_weight,
            (Kind::Weight, false) => 0.0,
        };
        match kind {
            Kind::Forward => ahead[rank] += 1,
            Kind::Input => ahead[rank] -= 1,
            Kind::Weight => {}
        }
        let span = &mut spans[rank];
        (span.start, span.end, span.work) = (span.start.min(start), start + cost, span.work + cost);
        done.of(kind)[d][s][i] = start + cost;
    }
    spans
}

/// Seconds until the last rank is done.
fn makespan(spans: &[Span]) -> f64 {
    spans.iter().fold(0.0, |a, s| a.max(s.end))
}

/// The longest any rank idles between its own first and last piece.
fn idle(spans: &[Span]) -> f64 {
    spans.iter().fold(0.0, |a, s| a.max(s.end - s.start - s.work))
}

fn straight(p: usize, m: usize) -> Rule {
    Rule {
        routes: vec![(0..p).collect()],
        micro_batches: m,
        limit: (0..p).map(|i| p - i).collect(),
        splits: false,
        all_forward_first: false,
    }
}

fn close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "simulated {found}, closed form {expected}");
}

const EVEN: Stage = Stage { forward: 1.0, backward_input: 1.0, backward_weight: 1.0 };
const REAL: Stage = Stage { forward: 1.0, backward_input: 1.15, backward_weight: 0.85 };

#[test]
fn gpipe_and_one_f_one_b_are_exact() {
    for (p, m) in [(2, 4), (4, 8), (8, 32)] {
        for t in [EVEN, REAL] {
            let work = m as f64 * t.total();
            let found = makespan(&simulate(&straight(p, m), p, |_| t)) - work;
            close(found, bubble(Schedule::OneFOneB, p as f64, 1.0, m as f64, &t), 1e-9);
            let gpipe = Rule { limit: vec![m; p], all_forward_first: true, ..straight(p, m) };
            let found = makespan(&simulate(&gpipe, p, |_| t)) - work;
            close(found, bubble(Schedule::Gpipe, p as f64, 1.0, m as f64, &t), 1e-9);
        }
    }
}

#[test]
fn uneven_stages_wait_for_the_slowest() {
    let (p, m) = (4, 16);
    let of = |x: f64| Stage { forward: x, backward_input: x, backward_weight: x };
    let simulated = makespan(&simulate(&straight(p, m), p, |rank| of(if rank == 3 { 1.3 } else { 1.0 })));
    let mean = of((3.0 + 1.3) / 4.0);
    let closed = m as f64 * of(1.3).total() + bubble(Schedule::OneFOneB, p as f64, 1.0, m as f64, &mean);
    close(simulated, closed, 0.02 * closed);
}

/// Runs listed work: each rank in its own order, each piece when it can.
fn listed(rule: &Rule, lists: &[Vec<(Kind, Piece)>], time: Stage) -> f64 {
    let empty = vec![vec![vec![NEVER; rule.micro_batches]; rule.stages()]; rule.routes.len()];
    let mut done = Done { forward: empty.clone(), input: empty.clone(), weight: empty };
    let (mut free, mut at) = (vec![0.0_f64; lists.len()], vec![0_usize; lists.len()]);
    let mut moved = true;
    while moved {
        moved = false;
        for rank in 0..lists.len() {
            while let Some(&(kind, piece)) = lists[rank].get(at[rank]) {
                let ready = done.ready(rule, kind, piece);
                if ready == NEVER {
                    break;
                }
                let cost = match (kind, rule.splits) {
                    (Kind::Forward, _) => time.forward,
                    (Kind::Input, true) => time.backward_input,
                    (Kind::Input, false) => time.backward_input + time.backward_weight,
                    (Kind::Weight, _) => time.backward_weight,
                };
                free[rank] = ready.max(free[rank]) + cost;
                let (d, s, i) = piece;
                done.of(kind)[d][s][i] = free[rank];
                at[rank] += 1;
                moved = true;
            }
        }
    }
    assert!(lists.iter().zip(&at).all(|(l, &n)| l.len() == n), "the lists block each other");
    free.into_iter().fold(0.0, f64::max)
}

#[test]
fn interleaving_divides_the_bubble() {
    // Rank i holds stages i, p + i, ..; it is 2 (p - 1 - i) + (v - 1) p forwards ahead.
    for (p, v, m) in [(2, 2, 4), (4, 2, 8), (4, 3, 16), (8, 2, 32)] {
        let stage = 1.0 / v as f64;
        let time = Stage { forward: stage, backward_input: stage, backward_weight: stage };
        let rule = Rule { routes: vec![(0..v * p).map(|s| s % p).collect()], ..straight(p, m) };
        let lists: Vec<Vec<(Kind, Piece)>> = (0..p)
            .map(|rank| {
                let pieces = |backward: bool| {
                    let mut all: Vec<Piece> =
                        (0..v).flat_map(|c| (0..m).map(move |i| (0, c * p + rank, i))).collect();
                    all.sort_by_key(|&piece| rule.order(piece, backward, p));
                    all
                };
                let ahead = (2 * (p - 1 - rank) + (v - 1) * p).min(v * m);
                let mut forwards = pieces(false).into_iter().map(|x| (Kind::Forward, x));
                let mut backwards = pieces(true).into_iter().map(|x| (Kind::Input, x));
                let mut list: Vec<_> = forwards.by_ref().take(ahead).collect();
                for f in forwards {
                    list.push(f);
                    list.extend(backwards.next());
                }
                list.extend(backwards);
                list
            })
            .collect();
        let found = listed(&rule, &lists, time) - m as f64 * EVEN.total();
        close(found, bubble(Schedule::Interleaved, p as f64, v as f64, m as f64, &EVEN), 1e-9);
    }
}

#[test]
fn weight_gradients_fill_the_bubble() {
    for (p, m) in [(4, 16), (8, 32)] {
        for (t, tolerance) in [(EVEN, 1e-9), (REAL, 0.3 * p as f64)] {
            // H1 ends all ranks together; H2 lets each begin its next step when it is done.
            let h1 = Rule { splits: true, ..straight(p, m) };
            let found = makespan(&simulate(&h1, p, |_| t)) - m as f64 * t.total();
            close(found, bubble(Schedule::ZeroBubbleH1, p as f64, 1.0, m as f64, &t), tolerance);
            let h2 = Rule { limit: (0..p).map(|i| 2 * (p - i) - 1).collect(), ..h1 };
            let found = idle(&simulate(&h2, p, |_| t));
            close(found, bubble(Schedule::ZeroBubbleH2, p as f64, 1.0, m as f64, &t), tolerance);
        }
    }
}

#[test]
fn few_micro_batches_leave_little_to_fill_the_bubble_with() {
    for p in [2, 4, 8] {
        for m in 1..=3 * p {
            let of = |schedule| bubble(schedule, p as f64, 1.0, m as f64, &EVEN);
            let h1 = Rule { splits: true, ..straight(p, m) };
            let found = makespan(&simulate(&h1, p, |_| EVEN)) - m as f64 * EVEN.total();
            close(found, of(Schedule::ZeroBubbleH1), 1e-9);
            let h2 = Rule { limit: (0..p).map(|i| 2 * (p - i) - 1).collect(), ..h1 };
            close(idle(&simulate(&h2, p, |_| EVEN)), of(Schedule::ZeroBubbleH2), 1e-9);
        }
    }
}

#[test]
fn two_directions_halve_the_pipeline() {
    for (p, m) in [(4, 16), (8, 32)] {
        for (t, tolerance) in [(EVEN, 1e-9), (REAL, 0.25 * p as f64)] {
            let dual = Rule {
                routes: vec![(0..p).collect(), (0..p).rev().collect()],
                micro_batches: m / 2,
                limit: vec![p + 1; p],
                splits: true,
                all_forward_first: false,
            };
            let found = makespan(&simulate(&dual, p, |_| t)) - m as f64 * t.total();
            close(found, bubble(Schedule::DualPipe, p as f64, 2.0, m as f64, &t), tolerance);
        }
    }
}

/// The order of PyTorch's `ScheduleZBVZeroBubble` on one rank: chunks 0 and 1 of a V, for micro-batches
/// enough to fill it; what is too much is left out.
fn v_order(p: usize, m: usize, rank: usize) -> Vec<(Kind, Piece)> {
    use Kind::{Forward, Input, Weight};
    let mut out: Vec<(Kind, Piece)> = Vec::new();
    // Pieces done by kind and chunk.
    let mut count = [[0_usize; 2]; 3];
    let mut run = |kind: Kind, chunk: usize, count: &mut [[usize; 2]; 3]| {
        let done = &mut count[kind as usize][chunk];
        let stage = if chunk == 0 { rank } else { 2 * p - 1 - rank };
        if *done < m {
            out.push((kind, (0, stage, *done)));
        }
        *done += 1;
    };
    let whole = m.max(2 * p - 1);
    let forwards = |count: &[[usize; 2]; 3]| (count[Forward as usize][0], count[Forward as usize][1]);
    for _ in 0..2 * (p - rank) - 1 {
        run(Forward, 0, &mut count);
    }
    for _ in 0..rank {
        run(Forward, 1, &mut count);
        run(Forward, 0, &mut count);
    }
    for _ in 0..p - rank {
        for kind in [Forward, Input, Weight] {
            run(kind, 1, &mut count);
        }
    }
    while forwards(&count).1 < forwards(&count).0 || forwards(&count).0 < whole {
        if forwards(&count).0 < whole {
            run(Forward, 0, &mut count);
        }
        run(Input, 0, &mut count);
        run(Weight, 0, &mut count);
        for kind in [Forward, Input, Weight] {
            run(kind, 1, &mut count);
        }
    }
    for _ in 0..rank {
        run(Input, 0, &mut count);
        run(Input, 1, &mut count);
    }
    for _ in 0..p - rank {
        run(Input, 0, &mut count);
        run(Weight, 0, &mut count);
    }
    for chunk in [1, 0] {
        while count[Weight as usize][chunk] < count[Input as usize][chunk] {
            run(Weight, chunk, &mut count);
        }
    }
    out
}

/// What a step of a V takes longer than its work, for chunks of such times.
fn v_bubble(p: usize, m: usize, chunk: Stage) -> f64 {
    let rule = Rule { routes: vec![(0..p).chain((0..p).rev()).collect()], splits: true, ..straight(p, m) };
    let lists: Vec<Vec<(Kind, Piece)>> = (0..p).map(|rank| v_order(p, m, rank)).collect();
    listed(&rule, &lists, chunk) - 2.0 * m as f64 * chunk.total()
}

/// Times of one stage in a grid about those of real layers.
fn grid(steps: [f64; 5]) -> impl Iterator<Item = Stage> {
    let each = move |forward: f64| {
        steps.into_iter().flat_map(move |backward_input| {
            steps.map(move |backward_weight| Stage { forward, backward_input, backward_weight })
        })
    };
    steps.into_iter().flat_map(each)
}

#[test]
fn a_v_is_exact() {
    for (p, m) in [(2, 3), (3, 5), (4, 7), (4, 16), (6, 13), (8, 15), (8, 40)] {
        for t in grid([0.5, 0.8, 1.0, 1.3, 2.0]) {
            let stage = Stage {
                forward: 2.0 * t.forward,
                backward_input: 2.0 * t.backward_input,
                backward_weight: 2.0 * t.backward_weight,
            };
            let closed = bubble(Schedule::ZeroBubbleV, p as f64, 2.0, m as f64, &stage);
            close(v_bubble(p, m, t), closed, 1e-9);
        }
    }
    // As Qi 2024b has it: the ranks idle one after another, each for (p - 1) b, and nowhere else.
    assert!((v_bubble(4, 16, EVEN) - 3.0).abs() < 1e-9);
}

#[test]
fn a_v_of_few_micro_batches_is_exact_where_backward_takes_longest() {
    for p in [2, 3, 4, 6, 8] {
        for m in 1..2 * p - 1 {
            for t in grid([0.5, 0.8, 1.0, 1.3, 2.0]) {
                if t.backward_weight <= t.forward && t.forward <= t.backward_input {
                    let stage = Stage {
                        forward: 2.0 * t.forward,
                        backward_input: 2.0 * t.backward_input,
                        backward_weight: 2.0 * t.backward_weight,
                    };
                    let closed = bubble(Schedule::ZeroBubbleV, p as f64, 2.0, m as f64, &stage);
                    close(v_bubble(p, m, t), closed, 1e-9);
                }
            }
        }
    }
}
