//! The tests of what the other tests are made of.

mod case_files;
