//! The exports and imports of the released module.

use anyhow::{Context, Result, bail};
use walrus::ir::{BinaryOp, GlobalGet, IfElse, Instr, InstrSeqType, UnaryOp, Unop, Value};
use walrus::{ConstExpr, ExportItem, FunctionKind, ImportKind, Module, ModuleConfig, ValType};

/// The callbacks that the filter implements. A host calls every exported callback, so each unneeded one costs a call
/// into the VM for each request. To implement another callback, such as `proxy_on_log`, add it here.
///
/// `proxy_on_done` is not among them: without it, a host calls `proxy_on_delete` at once, which frees the state of the
/// request.
const CALLBACKS: [&str; 12] = [
    "proxy_on_context_create",
    "proxy_on_vm_start",
    "proxy_on_configure",
    "proxy_on_request_headers",
    "proxy_on_request_body",
    "proxy_on_request_trailers",
    "proxy_on_response_headers",
    "proxy_on_response_body",
    "proxy_on_response_trailers",
    "proxy_on_http_call_response",
    "proxy_on_tick",
    "proxy_on_delete",
];

/// The other exports that a host needs: the ABI's version, the initialisation, the memory, and what the bridge in KrakenD asks.
const RUNTIME: [&str; 4] = ["proxy_abi_version_0_2_1", "_initialize", MEMORY, "edge_idempotency_needs"];

const MEMORY: &str = "memory";

/// The exports of the playground's module (docs/playground/src/memory.rs).
const PAGE: [&str; 4] = ["answer", "answered", MEMORY, "room"];

/// The allocators with which a host passes data to the module. One of the two has to exist.
const ALLOCATORS: [&str; 2] = ["malloc", "proxy_on_memory_allocate"];

/// The only WASI imports: they read environment variables (secrets). All other imports are from the proxy-wasm ABI
/// (`env`).
const WASI: [&str; 2] = ["environ_get", "environ_sizes_get"];

/// The maximum size in bytes. Every worker compiles the module at start, and configuration updates contain it.
const SIZE_LIMIT: usize = 780_000;

/// What wasm-opt does with the module: the steps of its `-Os` that gain most, without its inlining, which takes as long as all others
/// together. They make the module 5 % smaller and its exchanges 2 % cheaper. The features are those that rustc uses, so that wasm-opt
/// adds no instruction that needs another one.
pub(crate) const OPTIMIZATIONS: &str = "\
    --optimize-level=2 --shrink-level=1 --ssa-nomerge --duplicate-function-elimination --remove-unused-brs \
    --remove-unused-names --optimize-instructions --pick-load-signs --precompute --code-pushing --simplify-locals \
    --vacuum --reorder-locals --coalesce-locals --local-cse --simplify-locals --vacuum --coalesce-locals \
    --reorder-locals --code-folding --merge-blocks --remove-unused-brs --optimize-instructions --rse --vacuum \
    --dae-optimizing --duplicate-function-elimination --simplify-locals --coalesce-locals --vacuum \
    --reorder-locals --merge-blocks --remove-unused-brs --reorder-functions --enable-bulk-memory \
    --enable-bulk-memory-opt --enable-call-indirect-overlong --enable-multivalue --enable-mutable-globals \
    --enable-nontrapping-float-to-int --enable-reference-types --enable-sign-ext";

/// The numbers of imports and exports of a checked module.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) imports: usize,
    pub(crate) exports: usize,
}

/// Removes unneeded exports, the code that only they use, and all custom sections.
pub(crate) fn finish(linked: &[u8]) -> Result<Vec<u8>> {
    let mut module = parse(linked)?;
    strip(&mut module, is_kept);
    report(forbidden_imports(&module))?;
    Ok(module.emit_wasm())
}

/// As [`finish`], for the module of the playground's page. It imports nothing: it reaches neither the page nor the network.
pub(crate) fn finish_page(linked: &[u8]) -> Result<Vec<u8>> {
    let mut module = parse(linked)?;
    strip(&mut module, |name| PAGE.contains(&name));
    let imports = module.imports.iter().map(|import| format!("forbidden import: {}.{}", import.module, import.name));
    let missing = PAGE.into_iter().filter(|name| !module.exports.iter().any(|export| export.name == **name));
    report(imports.chain(missing.map(|name| format!("missing export: {name}"))).collect())?;
    Ok(module.emit_wasm())
}

/// As [`finish`], and each function notes when it is called first: the exported global `first_call:BYTES:NAME` has its number among the first
/// calls, counted in the exported global `first_calls`; 0 is never. The host may set both back.
pub(crate) fn note_first_calls(linked: &[u8]) -> Result<Vec<u8>> {
    let mut module = ModuleConfig::new().parse(linked).context("not a valid WebAssembly module")?;
    strip(&mut module, is_kept);
    let zero = || ConstExpr::Value(Value::I32(0));
    let calls = module.globals.add_local(ValType::I32, true, false, zero());
    module.exports.add("first_calls", calls);
    let functions: Vec<_> = module.funcs.iter_local().map(|(id, _)| id).collect();
    for id in functions {
        let named = module.funcs.get_mut(id);
        let (Some(name), FunctionKind::Local(function)) = (named.name.clone(), &mut named.kind) else { continue };
        let bytes = function.original_range.as_ref().map_or(0, ExactSizeIterator::len);
        let first = module.globals.add_local(ValType::I32, true, false, zero());
        module.exports.add(&format!("first_call:{bytes}:{name}"), first);
        let builder = function.builder_mut();
        let note = builder.dangling_instr_seq(InstrSeqType::Simple(None)).id();
        let nothing = builder.dangling_instr_seq(InstrSeqType::Simple(None)).id();
        let mut count = builder.instr_seq(note);
        count.global_get(calls).i32_const(1).binop(BinaryOp::I32Add).global_set(calls);
        count.global_get(calls).global_set(first);
        let begin: [Instr; 3] = [
            GlobalGet { global: first }.into(),
            Unop { op: UnaryOp::I32Eqz }.into(),
            IfElse { consequent: note, alternative: nothing }.into(),
        ];
        for (position, instruction) in begin.into_iter().enumerate() {
            builder.func_body().instr_at(position, instruction);
        }
    }
    Ok(module.emit_wasm())
}

fn strip(module: &mut Module, is_kept: impl Fn(&str) -> bool) {
    let surplus: Vec<_> = module.exports.iter().filter(|export| !is_kept(&export.name)).map(|e| e.id()).collect();
    for id in surplus {
        module.exports.delete(id);
    }
    let custom: Vec<_> = module.customs.iter().map(|(id, _)| id).collect();
    for id in custom {
        module.customs.delete(id);
    }
    walrus::passes::gc::run(module);
}

/// Checks a finished module. The error lists all problems.
pub(crate) fn check(finished: &[u8]) -> Result<Summary> {
    let module = parse(finished)?;
    let mut wrong = forbidden_imports(&module);
    wrong.extend(wrong_exports(&module));
    if module.start.is_some() {
        wrong.push("a start function runs before the host has set up its calls".to_owned());
    }
    if finished.len() > SIZE_LIMIT {
        wrong.push(format!("{} bytes, the limit is {SIZE_LIMIT}", finished.len()));
    }
    report(wrong)?;
    Ok(Summary { imports: module.imports.iter().count(), exports: module.exports.iter().count() })
}

fn parse(bytes: &[u8]) -> Result<Module> {
    ModuleConfig::new()
        .generate_name_section(false)
        .generate_producers_section(false)
        .parse(bytes)
        .context("not a valid WebAssembly module")
}

fn report(wrong: Vec<String>) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("the module cannot be shipped:\n  {}", wrong.join("\n  "))
}

fn is_kept(name: &str) -> bool {
    CALLBACKS.contains(&name) || RUNTIME.contains(&name) || ALLOCATORS.contains(&name)
}

fn forbidden_imports(module: &Module) -> Vec<String> {
    let allowed = |from: &str, name: &str| match from {
        "env" => name.starts_with("proxy_"),
        "wasi_snapshot_preview1" => WASI.contains(&name),
        _ => false,
    };
    module
        .imports
        .iter()
        .filter(|import| !matches!(import.kind, ImportKind::Function(_)) || !allowed(&import.module, &import.name))
        .map(|import| format!("forbidden import: {}.{}", import.module, import.name))
        .collect()
}

fn wrong_exports(module: &Module) -> Vec<String> {
    let find = |name: &str| module.exports.iter().find(|export| export.name == name);
    let mut wrong = Vec::new();
    for name in CALLBACKS.into_iter().chain(RUNTIME) {
        match find(name).map(|export| export.item) {
            None => wrong.push(format!("missing export: {name}")),
            Some(ExportItem::Memory(_)) if name == MEMORY => {}
            Some(ExportItem::Function(_)) if name != MEMORY => {}
            Some(_) => wrong.push(format!("export of the wrong kind: {name}")),
        }
    }
    if !ALLOCATORS.into_iter().any(|name| find(name).is_some()) {
        wrong.push(format!("missing export: {}", ALLOCATORS.join(" or ")));
    }
    let surplus = module.exports.iter().filter(|export| !is_kept(&export.name));
    wrong.extend(surplus.map(|export| format!("surplus export: {}", export.name)));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module as the linker makes it: all required parts, with `imports` before them and `more` after them.
    fn linked(imports: &str, more: &str) -> Vec<u8> {
        let exports: String = CALLBACKS
            .iter()
            .chain(&["proxy_abi_version_0_2_1", "_initialize", "edge_idempotency_needs", "malloc"])
            .map(|name| format!("(export \"{name}\" (func $kept))"))
            .collect();
        wat::parse_str(format!(
            "(module
                (import \"env\" \"proxy_log\" (func $log (param i32 i32 i32) (result i32)))
                {imports}
                (memory (export \"memory\") 1)
                (func $kept (drop (call $log (i32.const 0) (i32.const 0) (i32.const 0))))
                {exports}
                {more})"
        ))
        .unwrap()
    }

    fn exports(bytes: &[u8]) -> Vec<String> {
        parse(bytes).unwrap().exports.iter().map(|export| export.name.clone()).collect()
    }

    fn imports(bytes: &[u8]) -> Vec<String> {
        parse(bytes).unwrap().imports.iter().map(|import| import.name.clone()).collect()
    }

    fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn a_finished_module_passes_the_check() {
        let summary = check(&finish(&linked("", "")).unwrap()).unwrap();
        assert_eq!((summary.imports, summary.exports), (1, CALLBACKS.len() + RUNTIME.len() + 1));
    }

    #[test]
    fn callbacks_off_the_list_go_and_take_along_what_only_they_used() {
        let bytes = linked(
            "(import \"env\" \"proxy_done\" (func $done (result i32)))",
            "(func $log_only (result i32) (call $done))
             (export \"proxy_on_log\" (func $log_only)) (global (export \"__heap_base\") i32 (i32.const 1))",
        );
        assert!(exports(&bytes).contains(&"proxy_on_log".to_owned()));
        let finished = finish(&bytes).unwrap();
        assert!(!exports(&finished).iter().any(|name| name == "proxy_on_log" || name == "__heap_base"));
        assert_eq!(imports(&finished), ["proxy_log"]);
        assert!(finished.len() < bytes.len());
    }

    #[test]
    fn functions_that_are_called_through_the_table_stay() {
        let bytes = linked(
            "(import \"env\" \"proxy_done\" (func $done (result i32)))",
            "(type $t (func (result i32))) (table 1 funcref) (elem (i32.const 0) $done)
             (func (export \"proxy_on_memory_allocate\") (result i32) (call_indirect (type $t) (i32.const 0)))",
        );
        assert_eq!(imports(&finish(&bytes).unwrap()), ["proxy_log", "proxy_done"]);
    }

    #[test]
    fn the_module_of_the_page_imports_nothing() {
        let page = |more: &str| {
            let exports = "(export \"answer\" (func $f)) (export \"answered\" (func $f)) (export \"room\" (func $f))";
            wat::parse_str(format!("(module {more} (memory (export \"memory\") 1) (func $f) {exports})")).unwrap()
        };
        let surplus = page("(global (export \"__heap_base\") i32 (i32.const 1))");
        assert_eq!(exports(&finish_page(&surplus).unwrap()), ["memory", "answer", "answered", "room"]);
        let importing = page("(import \"env\" \"now\" (func $now)) (func (export \"kept\") (call $now)) (start $now)");
        assert!(error(finish_page(&importing)).contains("forbidden import: env.now"));
        assert!(error(finish_page(&linked("", ""))).contains("missing export: room"));
    }

    #[test]
    fn names_and_custom_sections_go() {
        let bytes = linked("", "(@custom \"producers\" \"\\00\") (@custom \"note\" \"/home/builder\") (func $spare)");
        let finished = finish(&bytes).unwrap();
        for gone in ["name", "producers", "note", "/home/builder", "kept"] {
            let found = |hay: &[u8]| hay.windows(gone.len()).any(|window| window == gone.as_bytes());
            assert!(found(&bytes), "{gone} was never there");
            assert!(!found(&finished), "{gone} is still there");
        }
    }

    #[test]
    fn every_forbidden_import_is_named() {
        let bytes = linked(
            "(import \"env\" \"abort\" (func $a)) (import \"wasi_snapshot_preview1\" \"fd_write\" (func $b))
             (import \"wasi_snapshot_preview1\" \"environ_get\" (func $c)) (import \"env\" \"proxy_value\" (global $d i32))",
            "(func (export \"proxy_on_memory_allocate\") (call $a) (call $b) (call $c) (drop (global.get $d)))",
        );
        let expected = "the module cannot be shipped:
  forbidden import: env.abort
  forbidden import: wasi_snapshot_preview1.fd_write
  forbidden import: env.proxy_value";
        assert_eq!(error(finish(&bytes)), expected);
        assert!(error(check(&bytes)).starts_with(expected));
    }

    #[test]
    fn a_forbidden_import_that_nothing_kept_uses_is_dropped_with_its_user() {
        let bytes = linked("(import \"env\" \"abort\" (func $a))", "(func (export \"proxy_on_log\") (call $a))");
        check(&finish(&bytes).unwrap()).unwrap();
    }

    #[test]
    fn the_check_names_missing_and_surplus_exports_and_wrong_kinds() {
        let bytes = wat::parse_str(
            "(module (func $f) (memory 1) (global $g i32 (i32.const 0))
                (export \"memory\" (func $f)) (export \"_initialize\" (global $g))
                (export \"proxy_abi_version_0_2_1\" (func $f)) (export \"_start\" (func $f)))",
        )
        .unwrap();
        let told = error(check(&bytes));
        for name in CALLBACKS {
            assert!(told.contains(&format!("missing export: {name}\n")), "{told}");
        }
        for line in [
            "missing export: malloc or proxy_on_memory_allocate",
            "export of the wrong kind: memory",
            "export of the wrong kind: _initialize",
            "surplus export: _start",
        ] {
            assert!(told.contains(line), "{line} not in: {told}");
        }
        assert!(!told.contains("proxy_abi_version_0_2_1"), "{told}");
    }

    #[test]
    fn the_check_refuses_a_start_function() {
        let told = error(check(&finish(&linked("", "(start $kept)")).unwrap()));
        assert!(told.contains("start function"), "{told}");
    }

    #[test]
    fn the_check_refuses_a_module_above_the_size_limit() {
        let data = |length: usize| format!("(data (i32.const 0) \"{}\")", "a".repeat(length));
        check(&finish(&linked("", &data(SIZE_LIMIT - 2000))).unwrap()).unwrap();
        let told = error(check(&finish(&linked("", &data(SIZE_LIMIT))).unwrap()));
        assert!(told.contains(&format!("the limit is {SIZE_LIMIT}")), "{told}");
    }

    #[test]
    fn bytes_that_are_no_module_are_refused() {
        assert!(error(finish(b"#!/bin/sh\n")).contains("not a valid WebAssembly module"));
    }
}
