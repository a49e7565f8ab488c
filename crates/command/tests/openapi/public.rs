//! Cuts of public descriptions, through `init`, `check`, `overlay` and `check --openapi`.

use super::apply::{applied, described};
use super::{findings, folder, names, run, run_with};

const FILES: [&str; 2] = ["stripe.json", "acp.yaml"];

#[test]
fn a_policy_is_drafted_that_passes_the_check() {
    for file in FILES {
        let path = format!("public/{file}");
        let drafted = run(&["init", "--yes", "--openapi", &path, "-"]);
        assert_eq!(drafted.status, 0, "{file}: {}", drafted.errors);
        let checked = run_with(&["check", "--deny", "all", "-"], &drafted.output);
        assert_eq!((checked.status, checked.errors.as_str()), (0, ""), "{file}");
        insta::assert_snapshot!(format!("init-{file}"), format!("{}{}", drafted.errors, drafted.output));
    }
}

/// The policy that `init` drafts and the overlay that is made of it leave nothing to report.
#[test]
fn with_the_overlay_of_the_drafted_policy_nothing_differs() {
    for file in FILES {
        let path = format!("public/{file}");
        let policy = run(&["init", "--yes", "--openapi", &path, "-"]).output;
        let before = findings("-", &path, &policy);
        assert!(before.iter().all(|finding| finding["severity"] != "error"), "{file}: {before:?}");
        let places: String = before.iter().map(|one| format!("{} {}\n", one["lint"], one["pointer"])).collect();
        insta::assert_snapshot!(format!("check-{file}"), places);

        let made = run_with(&["overlay", "-", "--openapi", &path], &policy);
        assert_eq!((made.status, made.errors.as_str()), (0, ""), "{file}");
        let description = described(&std::fs::read_to_string(folder().join(&path)).unwrap());
        let after = applied(&made.output, &description);
        assert_eq!(applied(&made.output, &after), after, "{file}");
        let folder = tempfile::tempdir().unwrap();
        let changed = folder.path().join("openapi.json");
        std::fs::write(&changed, after.to_string()).unwrap();
        assert_eq!(names(&findings("-", changed.to_str().unwrap(), &policy)), [""; 0], "{file}");
    }
}
