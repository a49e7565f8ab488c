//! I2 for object keys: different callers, and different values of path parameters, never meet in one object, in the
//! path as it is sent and once the backend has decoded it.

use super::{cases, model};
use edge_idempotency_engine::identity::{Identity, Project, Subject, Tenant};
use edge_idempotency_engine::policy::{BackendKind, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// What an object key can be made of.
fn template() -> impl Strategy<Value = String> {
    let whole = [
        "{a}:{b}",
        "{tenant}:{b}:{a}",
        "{a}:{subject}",
        "{tenant}:{project}:{subject}:{a}",
        "{a}:x:{b}",
        "x-{a}:{b}-y",
    ];
    let pieces = ["{tenant}", "{project}", "{subject}", "{a}", "{b}", ":", ":", "::", "-", "x", "x:", ":y", ".", "@"];
    prop_oneof![
        1 => select(whole.to_vec()).prop_map(str::to_owned),
        3 => vec(select(pieces.to_vec()), 1..8).prop_map(|pieces| pieces.concat()),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    tenant: String,
    project: String,
    subject: (&'static str, String),
    parameters: [String; 2],
}

impl Values {
    fn identity(&self) -> Identity {
        Identity {
            tenant: Tenant::parse(self.tenant.as_bytes()).unwrap(),
            project: Project::parse(self.project.as_bytes()).unwrap(),
            subject: Subject::new(self.subject.0, self.subject.1.as_bytes()).unwrap(),
        }
    }

    fn path(&self, target: &Target) -> Option<String> {
        let parameters = self.parameters.clone().map(String::into_bytes);
        target.path(&parameters, Some(&self.identity())).map(|path| path.into_owned())
    }

    /// The same text in two parameters, divided at another colon.
    fn cut_elsewhere(&self, at: Index) -> [String; 2] {
        let text = self.parameters.join(":");
        let colons: Vec<usize> = text.match_indices(':').map(|(colon, _)| colon).collect();
        let (first, second) = text.split_at(*at.get(&colons));
        [first.to_owned(), second[1..].to_owned()]
    }

    /// The values that a template names.
    fn of(&self, template: &str) -> Vec<(&'static str, String)> {
        let named = [
            ("{tenant}", self.tenant.clone()),
            ("{project}", self.project.clone()),
            ("{subject}", format!("{}:{}", self.subject.0, self.subject.1)),
            ("{a}", self.parameters[0].clone()),
            ("{b}", self.parameters[1].clone()),
        ];
        named.into_iter().filter(|(name, _)| template.contains(name)).collect()
    }
}

fn values() -> impl Strategy<Value = Values> {
    let segment = || {
        select(vec!["a", "x", "xx", "-", "a-", "y", ".", "a.b", "~"])
            .prop_filter("a segment", |text| *text != ".")
            .prop_map(str::to_owned)
    };
    let text = || {
        vec(select(vec!["a", "x", "y", ":", "%", "%3A", "-", "/", ".", "@", "é", "user"]), 1..4)
            .prop_map(|pieces| pieces.concat())
    };
    (segment(), segment(), select(vec!["user", "a"]), text(), [text(), text()])
        .prop_map(|(tenant, project, kind, id, parameters)| Values { tenant, project, subject: (kind, id), parameters })
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn different_values_never_meet_in_one_object(template in template(), one in values(), other in values(), share in prop_oneof![3 => any::<[bool; 5]>(), 1 => Just([true; 5])], cut in any::<Index>()) {
        let Ok(target) = Target::parse(&format!("Obj/{template}/run"), &["a", "b"], false, BackendKind::Generic) else { return Ok(()) };
        // Values that differ in a few places only are likelier to meet.
        let mut other = other;
        if share[0] { other.tenant.clone_from(&one.tenant); }
        if share[1] { other.project.clone_from(&one.project); }
        if share[2] { other.subject.clone_from(&one.subject); }
        if share[3] { other.parameters[0].clone_from(&one.parameters[0]); }
        if share[4] { other.parameters[1].clone_from(&one.parameters[1]); }
        if share == [true; 5] { other.parameters = one.cut_elsewhere(cut); }
        let (Some(first), Some(second)) = (one.path(&target), other.path(&target)) else { return Ok(()) };
        let same = one.of(&template) == other.of(&template);
        prop_assert_eq!(first == second, same, "{} {}", first, second);
        let decoded = (model::percent_decoded(&first), model::percent_decoded(&second));
        prop_assert_eq!(decoded.0 == decoded.1, same, "{} {} are one object, {}", first, second, decoded.0.escape_ascii());
        // The object key is one segment.
        prop_assert_eq!(first.matches('/').count(), 3, "{}", first);
    }
}
