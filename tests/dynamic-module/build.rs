//! The module finds functions that Envoy 1.39 does not have by their names (`dlsym`), so the test programs export theirs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-tests=-rdynamic");
}
