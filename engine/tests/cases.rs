//! Every behaviour case through the engine, natively: `file::case`. The built module runs the same cases in wasm-tests/.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use testkit::cases::{self, CaseFile, Difference};
use testkit::native::Native;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match cases::load_dir(&cases::directory()) {
        Ok(files) => libtest_mimic::run(&arguments, files.into_iter().flat_map(of_file).collect()).exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn of_file(file: CaseFile) -> Vec<Trial> {
    let name = |case: &str| format!("{}::{case}", file.name);
    let requests = file.cases.into_iter().map(|case| {
        Trial::test(name(&case.name), move || {
            let outcome = Native.run(&case);
            told(&cases::compare(&case, &outcome), &outcome.log)
        })
    });
    let starts = file
        .start_errors
        .into_iter()
        .map(|case| Trial::test(name(&case.name), move || told(&case.compare(&Native.start(&case)), &[])));
    requests.chain(starts).collect()
}

fn told(differences: &[Difference], log: &[String]) -> Result<(), Failed> {
    if differences.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    lines.extend(log.iter().map(|line| format!("log: {line}")));
    Err(lines.join("\n").into())
}
