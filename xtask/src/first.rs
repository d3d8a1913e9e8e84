//! The first module: of the whole one only what ordinary first requests run. Whatever else it is asked
//! ends in a trap, and the whole module, which follows it, is asked instead. The core keeps no state, so
//! asking anew is always right.
//!
//! It is cut by measurement: the whole module is made to note every place that it reaches, answers the
//! kept requests of `wasm/first/requests.jsonl`, and each place that was not reached becomes a trap.

use std::cmp::Reverse;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use walrus::ir::{
    BinaryOp, Binop, Const, GlobalGet, GlobalSet, Instr, InstrLocId, InstrSeq, InstrSeqId, Unreachable, Value,
};
use walrus::{ConstExpr, FunctionId, GlobalId, Module, ValType};

use crate::{Outcome, data};

/// The globals in which an instrumented module notes what it reached: their name before the number, and how
/// many places each holds. `profile.js` reads them.
const REACHED: &str = "reached";
const BITS: usize = 32;

/// Cuts the first module from the whole one. `linked` is the module as the linker left it.
pub fn cut(root: &Path, whole: &[u8], linked: &[u8]) -> Outcome<Vec<u8>> {
    let mut module = data::module(whole)?;
    let reached = profile(root, &mut data::module(whole)?)?;
    let places = places(&module);
    if places.len().next_multiple_of(BITS) != reached.len() {
        return Err(format!("{} places, of which {} were profiled", places.len(), reached.len()).into());
    }
    let mut cold: Vec<Place> =
        places.into_iter().zip(reached).filter(|(_, reached)| !reached).map(|(place, _)| place).collect();
    behind_first(&mut cold, |place| place);
    for place in cold {
        let sequence = place.sequence(&mut module);
        sequence.truncate(place.at);
        sequence.push((Unreachable {}.into(), InstrLocId::default()));
    }
    data::drop_unread(&mut module, &data::referred_to_from_outside(linked)?)?;
    data::join(&mut module)?;
    Ok(module.emit_wasm())
}

/// Where a function may come to or not: its start, an arm of an `if`, what follows a branch or a block.
struct Place {
    function: FunctionId,
    sequence: InstrSeqId,
    at: usize,
}

impl Place {
    fn sequence<'a>(&self, module: &'a mut Module) -> &'a mut InstrSeq {
        module.funcs.get_mut(self.function).kind.unwrap_local_mut().block_mut(self.sequence)
    }
}

/// Every place of the module, in an order that depends on nothing but the module.
fn places(module: &Module) -> Vec<Place> {
    let mut places = Vec::new();
    for (function, body) in module.funcs.iter_local() {
        places.push(Place { function, sequence: body.entry_block(), at: 0 });
        let mut waiting = vec![body.entry_block()];
        while let Some(sequence) = waiting.pop() {
            let instructions = body.block(sequence);
            for (i, (instruction, _)) in instructions.iter().enumerate() {
                match instruction {
                    Instr::Block(it) => waiting.push(it.seq),
                    Instr::Loop(it) => waiting.push(it.seq),
                    Instr::IfElse(it) => {
                        for arm in [it.consequent, it.alternative] {
                            places.push(Place { function, sequence: arm, at: 0 });
                            waiting.push(arm);
                        }
                    }
                    Instr::BrIf(_) => {}
                    _ => continue,
                }
                if i + 1 < instructions.len() {
                    places.push(Place { function, sequence, at: i + 1 });
                }
            }
        }
    }
    places
}

/// Makes the module note each of its places, in a bit of an exported global: its own memory stays as it was.
fn instrument(module: &mut Module) {
    let mut places: Vec<(u32, Place)> = (0..).zip(places(module)).collect();
    let words: Vec<GlobalId> = (0..places.len().div_ceil(BITS))
        .map(|word| {
            let zero = ConstExpr::Value(Value::I32(0));
            let global = module.globals.add_local(ValType::I32, true, false, zero);
            module.exports.add(&format!("{REACHED}{word}"), global);
            global
        })
        .collect();
    behind_first(&mut places, |(_, place)| place);
    for (number, place) in places {
        let (word, bit) = (number as usize / BITS, number as usize % BITS);
        let global = words[word];
        let note: [Instr; 4] = [
            GlobalGet { global }.into(),
            Const { value: Value::I32(1 << bit) }.into(),
            Binop { op: BinaryOp::I32Or }.into(),
            GlobalSet { global }.into(),
        ];
        place.sequence(module).splice(place.at..place.at, note.map(|it| (it, InstrLocId::default())));
    }
}

/// Whether the kept requests reach each place of the module.
fn profile(root: &Path, module: &mut Module) -> Outcome<Vec<bool>> {
    instrument(module);
    let (folder, instrumented) = (root.join("wasm/first"), root.join("wasm/pkg/instrumented.wasm"));
    fs::write(&instrumented, module.emit_wasm())?;
    let mut node = Command::new("node");
    node.arg(folder.join("profile.js")).arg(&instrumented).arg(folder.join("requests.jsonl"));
    let output = node.stderr(Stdio::inherit()).output()?;
    fs::remove_file(&instrumented)?;
    if output.status.success() {
        Ok(output.stdout.iter().map(|&it| it == b'1').collect())
    } else {
        Err(format!("{node:?}: {}", output.status).into())
    }
}

/// What lies behind comes first, so that a change moves no place that is still to come.
fn behind_first<T>(places: &mut [T], place: impl Fn(&T) -> &Place) {
    places.sort_by_key(|it| Reverse(place(it).at));
}
