//! An OpenAPI Overlay (1.1) that adds to a description what callers see of a policy's routes.
//!
//! Applying it twice gives the same as applying it once: updates append to lists, so what an update puts into a list of the
//! description is removed before.
//!
//! | module | subject |
//! |---|---|
//! | `actions` | the actions of an overlay and their JSONPaths |
//! | `components` | what operations share: the schema of problem documents, headers |
//! | `general_response` | the responses `4XX`, `5XX` and `default` of a description |
//! | `known` | an overlay for a description that was read |
//! | `unknown` | an overlay for a description that was not read |
//! | `new_parameter` | the key in the place of a parameter of the description |
//! | `operation` | what is written into one operation |
//! | `generators` | what generators of SDKs read |

mod actions;
mod components;
mod general_response;
pub(crate) mod generators;
mod known;
mod new_parameter;
mod operation;
mod unknown;

use super::interface::RouteInterface;
use super::references::References;
use actions::OverlayActions;
use edge_idempotency_engine::Policy;
use generators::GeneratorSwitches;
use serde_json::{Value, json};

/// An overlay, and what a person should know of it.
#[derive(Debug)]
pub(crate) struct MadeOverlay {
    /// The document
    pub(crate) document: Value,
    /// What the overlay leaves out, and why
    pub(crate) notes: Vec<String>,
}

/// Makes an overlay. With a description its targets are the operations of the description, without one the routes of the policy.
///
/// # Errors
/// The description has a component of its own under a name that the overlay needs.
pub(crate) fn make(
    policy: &Policy,
    description: Option<&References<'_>>,
    switches: GeneratorSwitches,
) -> Result<MadeOverlay, String> {
    let interfaces: Vec<RouteInterface<'_>> = policy.routes().map(|route| RouteInterface::new(policy, route)).collect();
    let mut actions = OverlayActions::default();
    components::add(policy, &interfaces, description, &mut actions)?;
    generators::add_to_root(switches, &interfaces, &mut actions);
    let left_out = |interface: &RouteInterface<'_>| {
        let pattern = interface.key_schema().pattern_left_out().filter(|_| interface.takes_keys())?;
        let endpoint = &interface.route.endpoint;
        Some(format!(
            "`{endpoint}`: the pattern `{pattern}` of its keys is not in the schema, because JSON Schema has no such pattern"
        ))
    };
    let mut notes: Vec<String> = interfaces.iter().filter_map(left_out).collect();
    match description {
        Some(references) => notes.extend(known::add(policy, &interfaces, references, switches, &mut actions)),
        None => unknown::add(&interfaces, switches, &mut actions),
    }
    let info = json!({"title": "Idempotency keys", "version": "1.0.0"});
    Ok(MadeOverlay { document: json!({"overlay": "1.1.0", "info": info, "actions": actions.into_json()}), notes })
}
