//! What is found in a file, and how it is written with switches.

use crate::find::MutableFile;

/// A file with all of its mutants, numbered from 1.
fn switched(text: &str) -> (Vec<String>, String) {
    let mut source = MutableFile::read("f.rs", text.to_owned()).unwrap();
    for (mutant, number) in source.mutants.iter_mut().zip(1..) {
        mutant.number = number;
    }
    let changes = source.mutants.iter().map(|mutant| format!("{}: {}", mutant.line, mutant.change)).collect();
    let text = source.switched(|_| true, |_| false).text;
    assert!(syn::parse_file(&text).is_ok(), "{text}");
    (changes, text)
}

#[test]
fn operators_are_switched_from_the_outside() {
    let (changes, text) = switched("fn f(a: A) { g(a.b == 1 && !a.c); }");
    let expected =
        ["1: replace f with ()", "1: replace && with || in f", "1: replace == with != in f", "1: delete ! in f"];
    assert_eq!(changes, expected);
    let expected = "fn f(a: A) { if ::edge_mutants::on(1) { return (); } g((if ::edge_mutants::on(2) { (a.b == 1) || !a.c } else \
        { (if ::edge_mutants::on(3) { (a.b) != 1 } else { a.b == 1 }) && (if ::edge_mutants::on(4) { a.c } else { !a.c }) })); }";
    assert_eq!(text, expected);
}

#[test]
fn what_is_computed_at_compile_time_stays() {
    let (changes, _) =
        switched("const A: u8 = 1 + 2; static B: [u8; 2 + 1] = [0; 3]; enum C { D = 1 + 1 } type E = [u8; 1 + 1];");
    assert!(changes.is_empty(), "{changes:?}");
    let (changes, _) =
        switched("fn f() { if let Some(1 | 2) = g() && h() {} m!(1 + 2); } #[cfg(test)] mod t { fn g() { 1 + 2; } }");
    assert_eq!(changes, ["1: replace f with ()"]);
}

#[test]
fn a_constant_function_is_none_where_it_can_be_switched() {
    let text = "const fn f() -> bool { a() }";
    let (changes, switched) = switched(text);
    assert_eq!(changes, ["1: replace f -> bool with true", "1: replace f -> bool with false"]);
    assert!(switched.starts_with("      fn f() -> bool { if ::edge_mutants::on(1) { return true; }"), "{switched}");
    let kept = MutableFile::read("f.rs", text.to_owned()).unwrap().switched(|_| true, |name| name == "f").text;
    assert_eq!(kept, text);
}

#[test]
fn arms_guards_and_fields_are_left_out() {
    let (changes, text) = switched("fn f(a: u8) { match a { 1 => g(), 2 if h() => g(), _ => g() } g(S { a, ..b }); }");
    let expected = [
        "1: replace f with ()",
        "1: delete match arm 1 in f",
        "1: replace match guard h() with true in f",
        "1: replace match guard h() with false in f",
        "1: delete field a from struct S expression in f",
    ];
    assert_eq!(changes, expected);
    assert!(text.contains("1 if !::edge_mutants::on(2) => g()"), "{text}");
    assert!(text.contains("if ::edge_mutants::on(5) { S {  ..b } } else { S { a, ..b } }"), "{text}");
}

#[test]
fn a_mutant_that_is_not_wanted_is_not_written() {
    let text = "fn f() -> u8 { 1 + 1 }";
    let source = MutableFile::read("f.rs", text.to_owned()).unwrap();
    assert_eq!(source.mutants.len(), 4);
    assert_eq!(source.switched(|_| false, |_| false).text, text);
}
