//! Routes of a first policy, guessed from an OpenAPI description, each with the reason.

use super::answers::{POLICIES, RouteAnswer, RouteWebhook, structure};
use super::webhook_signs::WebhookSigns;
use crate::explain::terminal_text::printable;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::key_parameter::{self, KEY_HEADER};
use crate::openapi::operations::{self, ApiOperation};
use crate::openapi::references::References;
use edge_idempotency_engine::policy::Template;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The extension that names the policy of an operation.
const POLICY: &str = "x-idempotency-policy";
/// Methods that change nothing.
const READS: [&str; 5] = ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"];

/// A route and why it is as it is.
#[derive(Debug)]
pub(crate) struct GuessedRoute {
    /// The route
    pub(crate) route: RouteAnswer,
    /// The line of the description that the guess is about
    pub(crate) line: usize,
    /// Why
    pub(crate) reason: String,
}

/// What was guessed from a description.
#[derive(Debug, Default)]
pub(crate) struct RouteGuesses {
    /// The routes, in the order of the description
    pub(crate) routes: Vec<GuessedRoute>,
    /// What has no route, and why
    pub(crate) left_out: Vec<String>,
}

/// Guesses a route for each operation.
pub(crate) fn guess(source: &SourceText, tree: &SpannedNode) -> RouteGuesses {
    let references = References::new(tree);
    let (operations, unread) = operations::of_description(&references);
    let mut guesses = RouteGuesses::default();
    for part in unread {
        guesses.left_out.push(format!("{}: {}; {}", part.title, part.message, part.help));
    }
    if let Some(first) = operations.iter().find(|one| has_several_paths(one)) {
        let path =
            first.servers.first().map(|server| server.path.as_str()).filter(|path| !path.is_empty()).unwrap_or("/");
        guesses.left_out.push(format!(
            "the servers of the description have several paths: the routes are for the first one, `{path}`"
        ));
    }
    let signs = WebhookSigns::of_catalogue();
    // The place of a route in the list, by its method and its path.
    let mut taken: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    let gets = operations.iter().filter(|one| one.method == "GET").filter_map(|one| path(one).ok());
    let has_get: BTreeSet<String> = gets.map(|path| structure(&path)).collect();
    for operation in &operations {
        let title = operation.title();
        let path = match path(operation) {
            Ok(path) => path,
            Err(why) => {
                guesses.left_out.push(format!("{title}: {why}"));
                continue;
            }
        };
        let structure = structure(&path);
        // GET stands for HEAD, too.
        if operation.method == "HEAD" && has_get.contains(&structure) {
            continue;
        }
        let guess = one(operation, &path, &references, &signs);
        let place = (operation.method.clone(), structure);
        if let Some((index, other)) = taken.get(&place) {
            guesses.left_out.push(format!("{title}: the route of `{other}` takes its requests"));
            if let Some(first) = guesses.routes.get_mut(*index) {
                first.share(&title, guess.policy);
            }
            continue;
        }
        taken.insert(place, (guesses.routes.len(), title));
        let route = RouteAnswer {
            method: operation.method.clone(),
            path,
            policy: guess.policy.to_owned(),
            target: None,
            name: name(references.text(operation.node, "operationId")),
            webhook: guess.webhook,
        };
        let line = source.place(guess.at.unwrap_or(operation.name_span.start)).line;
        guesses.routes.push(GuessedRoute { route, line, reason: guess.reason });
    }
    guesses
}

impl GuessedRoute {
    /// The route also takes the requests of another operation, for which the guess is `policy`.
    fn share(&mut self, title: &str, policy: &str) {
        if self.route.policy != policy {
            let _ = write!(
                self.reason,
                "; but `{title}` would be {policy}, so the route takes requests with a key and without"
            );
            self.route.policy = "ACCEPTED".to_owned();
            self.route.webhook = None;
        }
    }
}

impl RouteGuesses {
    /// The guesses as lines for people: method, path, policy, line of the description, reason.
    pub(crate) fn told(&self, file: &str) -> String {
        let width = |length: &dyn Fn(&RouteAnswer) -> usize| {
            self.routes.iter().map(|guess| length(&guess.route)).max().unwrap_or_default()
        };
        let (methods, paths) = (width(&|route| route.method.len()), width(&|route| route.path.len()).min(60));
        let mut text = String::new();
        let file = printable(file);
        for GuessedRoute { route, line, reason } in &self.routes {
            let RouteAnswer { method, path, policy, .. } = route;
            let (path, reason) = (printable(path), printable(reason));
            let _ = writeln!(text, "{method:methods$}  {path:paths$}  {policy:18}  {file}:{line}: {reason}");
        }
        self.left_out.iter().for_each(|why| {
            let _ = writeln!(text, "left out: {}", printable(why));
        });
        text
    }
}

/// A guess about an operation.
struct Guess {
    policy: &'static str,
    webhook: Option<RouteWebhook>,
    reason: String,
    /// The byte of the description that it is about, if it is not the operation itself
    at: Option<usize>,
}

fn because(policy: &'static str, reason: impl Into<String>) -> Guess {
    Guess { policy, webhook: None, reason: reason.into(), at: None }
}

fn one<'t>(operation: &ApiOperation<'t>, path: &str, references: &References<'t>, signs: &WebhookSigns) -> Guess {
    let sign = signs.of_operation(operation, path, references);
    if let Some(member) = references.member(operation.node, POLICY) {
        let at = Some(member.value.span.start);
        let said = member.value.text().unwrap_or_default();
        if said == "REQUIRED_B" {
            return Guess { at, ..of_webhook(path, sign.as_ref().and_then(|sign| sign.provider.clone())) };
        }
        if let Some(policy) = POLICIES.into_iter().find(|policy| *policy == said) {
            return Guess { at, ..because(policy, format!("{POLICY} says so")) };
        }
    }
    let keys = key_parameter::find(references, operation);
    let key = keys.effective();
    // A caller sends a key, and a provider of webhooks does not.
    if let Some(sign) = sign.filter(|_| key.is_none()) {
        let reason = format!(
            "{}, so it looks like a webhook: deliveries go to your handler as before, which verifies them; docs/webhooks.md says how the \
             filter does it",
            sign.why
        );
        return because("HANDLER_INTERNAL_C", reason);
    }
    let at = key.map(|key| key.span.start);
    let method = operation.method.as_str();
    let guess = match (key.map(|key| key.is_required), method) {
        (None, method) if READS.contains(&method) => {
            because("PROHIBITED", format!("{method} changes nothing, so it takes no key"))
        }
        (Some(false) | Some(true), method) if READS.contains(&method) => because(
            "ACCEPTED",
            format!("{method} changes nothing, and the parameter {KEY_HEADER} says that clients send a key"),
        ),
        (Some(true), _) => because("REQUIRED_A", format!("the parameter {KEY_HEADER} is required")),
        (Some(false), _) => because("ACCEPTED", format!("the parameter {KEY_HEADER} is not required")),
        (None, "PUT" | "DELETE") => {
            because("ACCEPTED", format!("{method} is idempotent by HTTP: no key is needed, and one that comes is used"))
        }
        (None, _) => because(
            "ACCEPTED",
            "no parameter says whether clients send a key: requests without one go on as before; write REQUIRED_A when all clients send one",
        ),
    };
    Guess { at, ..guess }
}

/// A route for deliveries that the description says the filter verifies.
fn of_webhook(path: &str, provider: Option<String>) -> Guess {
    let has = |name: &str| path.split('/').any(|segment| segment == name);
    let said = format!("{POLICY} says so");
    match (has("{webhook_id}"), has("{provider}"), provider) {
        (true, true, _) => Guess { webhook: Some(RouteWebhook::default()), ..because("REQUIRED_B", said) },
        (true, false, Some(provider)) => {
            Guess { webhook: Some(RouteWebhook { provider: Some(provider) }), ..because("REQUIRED_B", said) }
        }
        _ => because(
            "HANDLER_INTERNAL_C",
            format!(
                "{POLICY} says REQUIRED_B, which needs {{webhook_id}} and the provider in the path, or both in `webhook`: until then \
                 deliveries go to your handler as before (docs/webhooks.md)"
            ),
        ),
    }
}

fn has_several_paths(operation: &ApiOperation<'_>) -> bool {
    operation.servers.iter().any(|server| Some(&server.path) != operation.servers.first().map(|first| &first.path))
}

/// The path of an operation as a route has it.
///
/// # Errors
/// No route can have it; the sentence says why.
fn path(operation: &ApiOperation<'_>) -> Result<String, String> {
    let base = operation.servers.first().map(|server| server.path.as_str()).unwrap_or_default();
    let whole = format!("{base}{}", operation.path);
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut path = String::new();
    for segment in whole.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        path.push_str(&self::segment(segment, &mut names));
    }
    // A backend may tell `/orders/` from `/orders`.
    if path.is_empty() || whole.ends_with('/') {
        path.push('/');
    }
    Template::parse(&path).map(|_| path).map_err(|why| format!("no route can have this path: {why}"))
}

/// A segment of a path as a route has it: a text, a parameter, or a text with a parameter behind it.
fn segment(segment: &str, names: &mut BTreeSet<String>) -> String {
    let Some((prefix, rest)) = segment.split_once('{') else { return segment.to_owned() };
    let (prefix, written) = match rest.strip_suffix('}') {
        Some(name) if !name.contains(['{', '}']) => (prefix, name),
        // A text behind a parameter, or a second parameter: the whole segment is one.
        _ => ("", segment),
    };
    let mut name = snake_case(written);
    let (first, mut number) = (name.clone(), 2);
    while !names.insert(name.clone()) {
        name = format!("{first}_{number}");
        number += 1;
    }
    format!("{prefix}{{{name}}}")
}

/// A parameter's name: small letters, digits and `_`, with a letter at the beginning.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            snake.push('_');
        }
        if letter.is_ascii_alphanumeric() {
            snake.push(letter.to_ascii_lowercase());
        } else if !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        before = letter;
    }
    let snake = snake.trim_matches('_');
    if snake.starts_with(|first: char| first.is_ascii_lowercase()) {
        snake.to_owned()
    } else {
        format!("p_{snake}").trim_end_matches('_').to_owned()
    }
}

/// An endpoint's name from an `operationId`; `None` if nothing is left of it.
fn name(operation_id: Option<&str>) -> Option<String> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    let name: String = operation_id?.chars().map(plain).take(100).collect();
    let name = name.trim_matches(['-', '_', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::description;

    fn guessed(text: &str) -> RouteGuesses {
        let source = SourceText::new("a".to_owned(), text.as_bytes());
        guess(&source, &description::read(&source).unwrap())
    }

    fn policy_of(operation: &str) -> (String, String) {
        let guesses = guessed(&format!("openapi: 3.1.0\npaths:\n  {operation}\n"));
        let guess = &guesses.routes[0];
        (guess.route.policy.clone(), guess.reason.clone())
    }

    #[test]
    fn the_guess_follows_what_the_description_says() {
        let key = |required: &str| format!("parameters: [{{name: idempotency-key, in: header{required}}}]");
        for (operation, policy, reason) in [
            ("/a: {get: {}}".to_owned(), "PROHIBITED", "GET changes nothing"),
            ("/a: {options: {}}".to_owned(), "PROHIBITED", "OPTIONS changes nothing"),
            ("/a: {head: {}}".to_owned(), "PROHIBITED", "HEAD changes nothing"),
            (format!("/a: {{get: {{{}}}}}", key("")), "ACCEPTED", "clients send a key"),
            (format!("/a: {{post: {{{}}}}}", key(", required: true")), "REQUIRED_A", "is required"),
            (format!("/a: {{post: {{{}}}}}", key("")), "ACCEPTED", "is not required"),
            (format!("/a: {{{}, post: {{}}}}", key(", required: true")), "REQUIRED_A", "is required"),
            ("/a: {put: {}}".to_owned(), "ACCEPTED", "idempotent by HTTP"),
            ("/a: {delete: {}}".to_owned(), "ACCEPTED", "idempotent by HTTP"),
            ("/a: {post: {}}".to_owned(), "ACCEPTED", "no parameter says"),
            ("/a: {patch: {}}".to_owned(), "ACCEPTED", "no parameter says"),
            ("/a: {post: {x-idempotency-policy: PROHIBITED}}".to_owned(), "PROHIBITED", "x-idempotency-policy says so"),
            ("/a: {post: {x-idempotency-policy: WRONG}}".to_owned(), "ACCEPTED", "no parameter says"),
            (
                "/in/{provider}/{webhook_id}: {post: {x-idempotency-policy: REQUIRED_B}}".to_owned(),
                "REQUIRED_B",
                "says so",
            ),
            (
                "/webhooks/stripe/{webhook_id}: {post: {x-idempotency-policy: REQUIRED_B}}".to_owned(),
                "REQUIRED_B",
                "says so",
            ),
            (
                "/in: {post: {x-idempotency-policy: REQUIRED_B}}".to_owned(),
                "HANDLER_INTERNAL_C",
                "which needs {webhook_id}",
            ),
            ("/webhooks/stripe: {post: {}}".to_owned(), "HANDLER_INTERNAL_C", "the path names the provider `stripe`"),
            ("/repos/{id}/hooks: {post: {}}".to_owned(), "ACCEPTED", "no parameter says"),
            // A delivery has no key of a caller.
            (format!("/webhooks/stripe: {{post: {{{}}}}}", key(", required: true")), "REQUIRED_A", "is required"),
            (
                "/in: {post: {parameters: [{name: X-Hub-Signature-256, in: header}]}}".to_owned(),
                "HANDLER_INTERNAL_C",
                "the header parameter X-Hub-Signature-256",
            ),
        ] {
            let (found, why) = policy_of(&operation);
            assert!(found == policy && why.contains(reason), "{operation}: {found}: {why}");
        }
    }

    /// A route for several operations refuses none of their requests.
    #[test]
    fn operations_of_one_route_get_the_policy_that_all_of_them_can_have() {
        let key = "parameters: [{name: Idempotency-Key, in: header, required: true}]";
        for (first, second, policy) in [
            (key, "", "ACCEPTED"),
            ("", key, "ACCEPTED"),
            ("x-idempotency-policy: PROHIBITED", key, "ACCEPTED"),
            (key, key, "REQUIRED_A"),
        ] {
            let text = format!(
                "openapi: 3.1.0\npaths:\n  '/x/{{id}}:cancel': {{post: {{{first}}}}}\n  /x/{{id}}: {{post: {{{second}}}}}\n"
            );
            let guesses = guessed(&text);
            let [guess] = guesses.routes.as_slice() else { panic!("{guesses:?}") };
            assert_eq!(guess.route.policy, policy, "{text}");
            assert!(
                guesses.left_out[0].contains("the route of `POST /x/{id}:cancel` takes its requests"),
                "{guesses:?}"
            );
            assert_eq!(guess.reason.contains("`POST /x/{id}` would be"), first != second, "{guesses:?}");
        }
    }

    #[test]
    fn paths_become_templates_and_none_is_there_twice() {
        let guesses = guessed(
            "openapi: 3.1.0\nservers: [{url: https://x.example/v1/}, {url: https://y.example/v2}]\npaths:\n  /: {get: {}, head: {}}\n  \
             /orders/{orderID}/: {get: {operationId: get/order}}\n  /orders/{id}: {get: {}}\n  /files/{name}.json: {get: {}}\n  \
             /flags/key:{flagName}: {get: {}}\n  /{a}/{A}: {get: {}}\n  /{2x}: {get: {}}\n  /a;b: {get: {}}\n  /far: {$ref: far.yaml}\n",
        );
        let paths: Vec<&str> = guesses.routes.iter().map(|guess| guess.route.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/v1/",
                "/v1/orders/{order_id}/",
                "/v1/files/{name_json}",
                "/v1/flags/key:{flag_name}",
                "/v1/{a}/{a_2}",
                "/v1/{p_2x}"
            ]
        );
        assert_eq!(guesses.routes[1].route.name.as_deref(), Some("get-order"));
        assert_eq!(guesses.routes[1].line, 5);
        let told = guesses.told("x.yaml");
        for part in [
            "left out: GET /orders/{id}: the route of `GET /orders/{orderID}/`",
            "left out: GET /a;b: no route",
            "left out: /far: `far.yaml`",
            "have several paths",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
