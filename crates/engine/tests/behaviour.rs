//! Every behaviour case through the engine, without a gateway. The built module runs the same cases in wasm-tests/.

use direct::cases::Direct;
use libtest_mimic::{Failed, Trial};
use testkit::cases::{self, CaseFile};

/// A test for each case, or one that says why there are none.
pub(crate) fn trials() -> Vec<Trial> {
    match cases::load_dir(&cases::directory()) {
        Ok(files) => files.into_iter().flat_map(of_file).collect(),
        Err(error) => vec![Trial::test("behaviour", move || Err(Failed::from(error)))],
    }
}

fn of_file(file: CaseFile) -> Vec<Trial> {
    let name = |case: &str| format!("behaviour::{}::{case}", file.name);
    let requests = file.cases.into_iter().map(|case| {
        Trial::test(name(&case.name), move || {
            let outcome = Direct.run(&case);
            Ok(cases::verdict(&cases::compare(&case, &outcome), &outcome.log)?)
        })
    });
    let starts = file.start_errors.into_iter().map(|case| {
        Trial::test(name(&case.name), move || {
            Ok(cases::verdict(
                &case.compare(&Direct.start(&case, &edge_idempotency_engine::OperatorAdvice::GENERAL)),
                &[],
            )?)
        })
    });
    requests.chain(starts).collect()
}
