//! Shadow mode: what acts all the same (docs/contract.md section 2).

mod compile;
