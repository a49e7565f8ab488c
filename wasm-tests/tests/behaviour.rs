//! Every behaviour case, once through the core and once through the built module, as tests of their own:
//! `file::case::native` and `file::case::wasm`. The second also compares the two runs, whole.

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Failed, Trial};
use testkit::cases::{self, Case, CaseFile, Difference, StartErrors};
use testkit::native::Native;
use wasm_tests::engine::Wasm;

/// Compiling the module takes a second or two: once for all cases, and only if one of them runs.
static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(Wasm::load);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match cases::load_dir(&cases::directory()) {
        Ok(files) => libtest_mimic::run(&arguments, files.into_iter().flat_map(trials).collect()).exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn trials(file: CaseFile) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut both = |name: &str, native: Test, wasm: Test| {
        trials.push(Trial::test(format!("{}::{name}::native", file.name), native));
        trials.push(Trial::test(format!("{}::{name}::wasm", file.name), wasm));
    };
    for case in file.cases {
        let name = case.name.clone();
        let case = Arc::new(case);
        let same = Arc::clone(&case);
        both(&name, Box::new(move || native(&case)), Box::new(move || wasm(&same)));
    }
    for case in file.start_errors {
        let name = case.name.clone();
        let case = Arc::new(case);
        let same = Arc::clone(&case);
        both(&name, Box::new(move || native_start(&case)), Box::new(move || wasm_start(&same)));
    }
    trials
}

type Test = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

fn native(case: &Case) -> Result<(), Failed> {
    told(&cases::compare(case, &Native.run(case)), &[])
}

fn wasm(case: &Case) -> Result<(), Failed> {
    let outcome = module()?.run(case);
    let mut differences = cases::compare(case, &outcome);
    let unlike = cases::compare_outcomes(&Native.run(case), &outcome);
    differences.extend(unlike.into_iter().map(|Difference { what, expected, seen }| Difference {
        what: format!("unlike the core: {what}"),
        expected,
        seen,
    }));
    told(&differences, &outcome.log)
}

fn native_start(case: &StartErrors) -> Result<(), Failed> {
    told(&case.compare(&Native.start(case)), &[])
}

fn wasm_start(case: &StartErrors) -> Result<(), Failed> {
    let errors = module()?.start(case);
    let mut differences = case.compare(&errors);
    let native = Native.start(case);
    if native != errors {
        let (what, expected, seen) = ("unlike the core: the errors".to_owned(), native.join("\n"), errors.join("\n"));
        differences.push(Difference { what, expected, seen });
    }
    told(&differences, &[])
}

fn module() -> Result<&'static Wasm, Failed> {
    MODULE.as_ref().map_err(Failed::from)
}

fn told(differences: &[Difference], log: &[String]) -> Result<(), Failed> {
    if differences.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    lines.extend(log.iter().map(|line| format!("log: {line}")));
    Err(lines.join("\n").into())
}
