//! A description of 5 MB. That no part takes quadratic time is counted in the unit tests of `openapi::references`; here the whole
//! command comes to its end, also where the description is one line.

use super::{findings, names, run_with};
use std::fmt::Write as _;

/// How many paths the description has.
const PATHS: usize = 3_000;

fn description() -> String {
    let mut text = String::from("{\"openapi\":\"3.1.0\",\"paths\":{");
    for number in 0..PATHS {
        let filler = "x".repeat(1_600);
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            text,
            "{comma}\"/v1/things{number}/{{id}}\":{{\"post\":{{\"operationId\":\"make{number}\",\"description\":\"{filler}\",\"parameters\":[{{\"$ref\":\
             \"#/components/parameters/k{number}\"}}],\"responses\":{{\"200\":{{\"$ref\":\"#/components/responses/Fine\"}}}}}}}}"
        );
    }
    text.push_str("},\"components\":{\"responses\":{\"Fine\":{\"description\":\"Done\"}},\"parameters\":{");
    for number in 0..PATHS {
        let comma = if number > 0 { "," } else { "" };
        let _ =
            write!(text, "{comma}\"k{number}\":{{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"required\":true}}");
    }
    text.push_str("}}}");
    text
}

#[test]
#[ignore = "make test-all: 5 MB go through every command"]
fn a_large_description_goes_through_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.json");
    let text = description();
    assert!(text.len() > 5 << 20, "{} bytes", text.len());
    std::fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    let drafted = run_with(&["init", "--yes", "--openapi", file, "-"], "");
    assert_eq!((drafted.status, drafted.errors.lines().count()), (0, PATHS));
    let found = findings("-", file, &drafted.output);
    assert_eq!(names(&found), ["openapi-incomplete", "openapi-key-schema"]);
    assert_eq!(found.len(), 3 * PATHS);
    let overlay = run_with(&["overlay", "-", "--openapi", file], &drafted.output);
    assert_eq!(overlay.output.matches("x-idempotency-policy: REQUIRED_A").count(), PATHS);
}
