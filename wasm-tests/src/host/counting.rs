//! A module that counts the instructions that it executes. wasmi's fuel is no count: it is taken for all of a function at its call.

use walrus::ir::{BinaryOp, Instr, InstrSeq, Value, VisitorMut, dfs_pre_order_mut};
use walrus::{ConstExpr, GlobalId, InstrLocId, ModuleConfig, ValType};

/// The export that has the number of instructions.
pub(super) const COUNT: &str = "executed_instructions";

/// Adds the count to a module. The beginning and the end of a block or a loop are no instructions.
///
/// # Errors
/// It is no module.
pub fn counting(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let module = ModuleConfig::new().generate_producers_section(false).parse(wasm);
    let mut module = module.map_err(|error| format!("not a module: {error:?}"))?;
    let count = module.globals.add_local(ValType::I64, true, false, ConstExpr::Value(Value::I64(0)));
    module.exports.add(COUNT, count);
    for (_, function) in module.funcs.iter_local_mut() {
        let start = function.entry_block();
        dfs_pre_order_mut(&mut Counter(count), function, start);
    }
    Ok(module.emit_wasm())
}

/// Puts an addition in front of all that is executed as one: up to what may jump, or begins or ends a block.
struct Counter(GlobalId);

impl VisitorMut for Counter {
    fn start_instr_seq_mut(&mut self, sequence: &mut InstrSeq) {
        let instructions = std::mem::take(&mut sequence.instrs);
        for run in instructions.split_inclusive(|(instruction, _)| is_end_of_run(instruction)) {
            let is_counted =
                |(instruction, _): &&(Instr, InstrLocId)| !matches!(instruction, Instr::Block(_) | Instr::Loop(_));
            let number = i64::try_from(run.iter().filter(is_counted).count()).unwrap_or(i64::MAX);
            let addition: [Instr; 4] = [
                walrus::ir::GlobalGet { global: self.0 }.into(),
                walrus::ir::Const { value: Value::I64(number) }.into(),
                walrus::ir::Binop { op: BinaryOp::I64Add }.into(),
                walrus::ir::GlobalSet { global: self.0 }.into(),
            ];
            sequence.instrs.extend(addition.map(|instruction| (instruction, InstrLocId::default())));
            sequence.instrs.extend_from_slice(run);
        }
    }
}

fn is_end_of_run(instruction: &Instr) -> bool {
    matches!(
        instruction,
        Instr::Block(_)
            | Instr::Loop(_)
            | Instr::IfElse(_)
            | Instr::Br(_)
            | Instr::BrIf(_)
            | Instr::BrTable(_)
            | Instr::Return(_)
    )
}
