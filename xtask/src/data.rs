//! The data of a module: which of it the code that is left can read.
//!
//! The linker is told to keep every constant in a segment of its own and to say where addresses stand.
//! A segment stays when some instruction that is left, or some segment that stays, holds an address
//! inside it. Where the compiler made an address outside of the constant that it belongs to (a table's
//! start less its first index), the linker's own words tell which constant that is, and it stays.

use std::collections::BTreeSet;

use walrus::ir::{Const, Load, Store, Value, Visitor, dfs_in_order};
use walrus::{ConstExpr, Data, DataId, DataKind, Module, ModuleConfig};
use wasmparser::{KnownCustom, Linking, Parser, Payload, RelocAddendKind, SymbolInfo};

use crate::Outcome;

/// The linker's options.
pub const APART: [&str; 2] = ["--no-merge-data-segments", "--emit-relocs"];

/// Addresses of the segments that something of the linked module refers to from outside of them.
pub fn referred_to_from_outside(linked: &[u8]) -> Outcome<BTreeSet<u32>> {
    // Of each symbol of data: its segment, where in it, how long.
    let mut symbols = Vec::new();
    let mut references = Vec::new();
    let mut starts = Vec::new();
    for payload in Parser::new(0).parse_all(linked) {
        match payload? {
            Payload::DataSection(segments) => {
                for segment in segments {
                    starts.push(match segment?.kind {
                        wasmparser::DataKind::Active { offset_expr, .. } => {
                            match offset_expr.get_operators_reader().read()? {
                                wasmparser::Operator::I32Const { value } => value.cast_unsigned(),
                                other => return Err(format!("a data segment at {other:?}").into()),
                            }
                        }
                        wasmparser::DataKind::Passive => return Err("a passive data segment".into()),
                    });
                }
            }
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::Linking(linking) => {
                    for part in linking.subsections() {
                        let Linking::SymbolTable(table) = part? else { continue };
                        for symbol in table {
                            symbols.push(match symbol? {
                                SymbolInfo::Data { symbol, .. } => symbol,
                                _ => None,
                            });
                        }
                    }
                }
                KnownCustom::Reloc(relocations) => {
                    for entry in relocations.entries() {
                        let entry = entry?;
                        if entry.ty.addend_kind() != RelocAddendKind::None {
                            references.push((entry.index, entry.addend));
                        }
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    if references.is_empty() {
        return Err("the linker did not say where addresses stand".into());
    }
    let mut outside = BTreeSet::new();
    for (symbol, addend) in references {
        // Functions and sections have addends too, and no segment.
        let Some(Some(symbol)) = symbols.get(symbol as usize) else { continue };
        if addend < 0 || addend > i64::from(symbol.size) {
            outside.insert(*starts.get(symbol.index as usize).ok_or("a symbol of no segment")?);
        }
    }
    Ok(outside)
}

/// Reads a module, without what the linker said of it.
pub fn module(bytes: &[u8]) -> Outcome<Module> {
    let mut module = ModuleConfig::new().generate_producers_section(false).parse(bytes)?;
    let said = |name: &str| name == "linking" || name.starts_with("reloc.");
    let sections: Vec<_> =
        module.customs.iter().filter(|(_, section)| said(section.name())).map(|(id, _)| id).collect();
    for section in sections {
        module.customs.delete(section);
    }
    Ok(module)
}

/// Where an active segment begins.
fn start(data: &Data) -> Outcome<u32> {
    match data.kind {
        DataKind::Active { offset: ConstExpr::Value(Value::I32(at)), .. } => Ok(at.cast_unsigned()),
        _ => Err("a data segment without an address".into()),
    }
}

/// Every number of the code that may be an address.
#[derive(Default)]
struct Addresses(BTreeSet<u32>);

impl Visitor<'_> for Addresses {
    fn visit_const(&mut self, it: &Const) {
        if let Value::I32(value) = it.value {
            self.0.insert(value.cast_unsigned());
        }
    }

    fn visit_load(&mut self, it: &Load) {
        self.0.extend(u32::try_from(it.arg.offset));
    }

    fn visit_store(&mut self, it: &Store) {
        self.0.extend(u32::try_from(it.arg.offset));
    }
}

/// Removes the segments that nothing can read any more, but for those of `always`.
pub fn drop_unread(module: &mut Module, always: &BTreeSet<u32>) -> Outcome {
    let mut segments: Vec<(u32, DataId)> =
        module.data.iter().map(|it| Ok((start(it)?, it.id()))).collect::<Outcome<_>>()?;
    segments.sort_unstable_by_key(|&(start, _)| start);
    let mut found = Addresses::default();
    for (_, function) in module.funcs.iter_local() {
        dfs_in_order(&mut found, function, function.entry_block());
    }
    let mut waiting: Vec<u32> = found.0.into_iter().chain(always.iter().copied()).collect();
    let mut kept = BTreeSet::new();
    while let Some(address) = waiting.pop() {
        // An address may be the end of one segment and the start of the next.
        let after = segments.partition_point(|&(start, _)| start <= address);
        for &(start, id) in segments[..after].iter().rev().take(2) {
            let bytes = &module.data.get(id).value;
            if (address - start) as usize > bytes.len() || !kept.insert(id) {
                continue;
            }
            // Pointers are aligned in memory, which a segment need not be.
            let skipped = (start.next_multiple_of(4) - start) as usize;
            let words = bytes.get(skipped..).unwrap_or_default().chunks_exact(4);
            waiting.extend(words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
        }
    }
    for (_, id) in segments {
        if !kept.contains(&id) {
            module.data.delete(id);
        }
    }
    Ok(())
}

/// Makes the segments one, with zeros between them: what is small again is left to the optimiser.
pub fn join(module: &mut Module) -> Outcome {
    let segments: Vec<(u32, DataId)> =
        module.data.iter().map(|it| Ok((start(it)?, it.id()))).collect::<Outcome<_>>()?;
    let Some(&(first, _)) = segments.iter().min_by_key(|(start, _)| start) else { return Ok(()) };
    let memory = module.memories.iter().next().ok_or("a module without memory")?.id();
    let mut all = Vec::new();
    for (start, id) in segments {
        let at = (start - first) as usize;
        let bytes = std::mem::take(&mut module.data.get_mut(id).value);
        all.resize(all.len().max(at + bytes.len()), 0);
        all[at..at + bytes.len()].copy_from_slice(&bytes);
        module.data.delete(id);
    }
    let offset = ConstExpr::Value(Value::I32(first.cast_signed()));
    module.data.add(DataKind::Active { memory, offset }, all);
    Ok(())
}
