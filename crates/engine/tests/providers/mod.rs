//! Webhook providers: every vector by name, properties of all deliveries, the provider files and their page.

// Tests say what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

mod any_bytes;
mod api;
mod cuts;
mod files;
mod head;
mod keys;
mod page;
mod recuts;
mod tamper;
mod twins;
mod vectors;

use libtest_mimic::{Failed, Trial};

/// What holds for all of them, or the first case for which it does not.
type Property = fn() -> Result<(), String>;

/// A test for each vector and each property.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for vector in testkit::vectors::all() {
        if tamper::applies(&vector) {
            let vector = vector.clone();
            let name = format!("providers::tampered::{}", vector.id);
            trials.push(Trial::test(name, move || tamper::check(&vector).map_err(Failed::from)));
        }
        let name = format!("providers::vector::{}", vector.id);
        trials.push(Trial::test(name, move || vectors::check(&vector).map_err(Failed::from)));
    }
    let properties: &[(&str, Property)] = &[
        ("api::secrets", api::secrets),
        ("api::what_a_route_needs_to_know", api::what_a_route_needs_to_know),
        ("keys::digests_are_those_of_the_documentation", keys::digests_are_those_of_the_documentation),
        ("keys::near_misses_differ", keys::near_misses_differ),
        ("keys::random_pairs_differ", keys::random_pairs_differ),
        ("keys::composites_differ", keys::composites_differ),
        ("cuts::twilio_forms", cuts::twilio_forms),
        ("cuts::twilio_hash_in_a_field", cuts::twilio_hash_in_a_field),
        ("cuts::twilio_forms_without_an_identifier", cuts::twilio_forms_without_an_identifier),
        ("cuts::recut_forms_name_no_other_message", cuts::recut_forms_name_no_other_message),
        ("cuts::twilio_hashes_are_always_compared", cuts::twilio_hashes_are_always_compared),
        ("cuts::twilio_random_cuts", cuts::twilio_random_cuts),
        ("cuts::digits_beside_a_timestamp", cuts::digits_beside_a_timestamp),
        ("cuts::defaults", cuts::defaults),
        ("recuts::only_what_was_sent_is_accepted", recuts::only_what_was_sent_is_accepted),
        ("twins::nothing_that_looks_verified_is_left", twins::nothing_that_looks_verified_is_left),
        ("any_bytes::deliveries", any_bytes::deliveries),
        ("any_bytes::mutations", any_bytes::mutations),
        ("any_bytes::identifiers", any_bytes::identifiers),
        ("any_bytes::files", any_bytes::files),
        ("head::refuses_nothing_that_verifies", head::refuses_nothing_that_verifies),
        ("head::shows_what_needs_no_body", head::shows_what_needs_no_body),
        ("head::long_lines_are_refused", head::long_lines_are_refused),
        ("files::are_whole", files::are_whole),
        ("files::have_vectors", files::have_vectors),
        ("files::agree_with_the_schema", files::agree_with_the_schema),
        ("files::every_member_is_tried", files::every_member_is_tried),
        ("files::faults_are_told_together", files::faults_are_told_together),
        ("files::relations_are_told", files::relations_are_told),
        ("page::is_fresh", page::is_fresh),
    ];
    for (name, property) in properties {
        trials.push(Trial::test(format!("providers::{name}"), move || property().map_err(Failed::from)));
    }
    trials
}
