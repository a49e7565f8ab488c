//! Every behaviour case through an engine, as tests of their own: `file::case`. Each run is compared with what the case
//! says, and, whole, with the run of the engine itself.

use crate::cases::Direct;
use edge_idempotency_engine::OperatorAdvice;
use libtest_mimic::{Failed, Trial};
use testkit::cases::{self, Case, CaseFile, CaseOutcome, Difference, StartErrors};

/// What runs behaviour cases.
pub trait Engine: Sync {
    /// Runs a case.
    fn run(&self, case: &Case) -> CaseOutcome;

    /// The errors of a policy, each as `pointer: message`; none if it starts.
    fn start(&self, case: &StartErrors) -> Vec<String>;

    /// What it advises its operators.
    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::ADVICE
    }
}

/// An engine that is made when the first trial needs it, or why there is none.
pub type Source = fn() -> Result<&'static dyn Engine, String>;

/// What `of_file` makes of each of the repository's case files, or one trial that says why there are none.
pub fn of_all_files(of_file: impl FnMut(CaseFile) -> Vec<Trial>) -> Vec<Trial> {
    match cases::load_dir(&cases::directory()) {
        Ok(files) => files.into_iter().flat_map(of_file).collect(),
        Err(error) => vec![Trial::test("behaviour", move || Err(Failed::from(error)))],
    }
}

/// A trial for each case of a file: `behaviour::file::case`, with `prefix` in front.
pub fn of_file(prefix: &str, file: CaseFile, engine: Source) -> Vec<Trial> {
    let name = |case: &str| format!("{prefix}behaviour::{}::{case}", file.name);
    let requests = file.cases.into_iter().map(|case| Trial::test(name(&case.name), move || run_case(engine()?, &case)));
    let starts =
        file.start_errors.into_iter().map(|case| Trial::test(name(&case.name), move || run_start(engine()?, &case)));
    requests.chain(starts).collect()
}

fn run_case(engine: &dyn Engine, case: &Case) -> Result<(), Failed> {
    let (differences, log) = differences(engine, case);
    Ok(cases::verdict(&differences, &log)?)
}

/// Everything in which an engine's run of a case is not what the case says, or not what the engine itself comes to; and what
/// was logged.
pub fn differences(engine: &dyn Engine, case: &Case) -> (Vec<Difference>, Vec<String>) {
    let outcome = engine.run(case);
    let mut differences = cases::compare(case, &outcome);
    let unlike = cases::compare_outcomes(&Direct.run(case), &outcome);
    differences.extend(unlike.into_iter().map(|Difference { what, expected, seen }| Difference {
        what: format!("unlike the engine itself: {what}"),
        expected,
        seen,
    }));
    (differences, outcome.log)
}

fn run_start(engine: &dyn Engine, case: &StartErrors) -> Result<(), Failed> {
    let errors = engine.start(case);
    let mut differences = case.compare(&errors);
    let direct = Direct.start(case, engine.advice());
    if direct != errors {
        let what = "unlike the engine itself: the errors".to_owned();
        differences.push(Difference { what, expected: direct.join("\n"), seen: errors.join("\n") });
    }
    Ok(cases::verdict(&differences, &[])?)
}
