//! Policy and key: what the route asks for, the form of the key, and the rules for it.

use super::{Found, Step, Told};
use edge_idempotency_engine::exchange::TraceEvent;
use edge_idempotency_engine::key::{self, KeyCharset, KeyFormat, KeyRules, KeySyntax, MAX_NAMESPACED_LENGTH};
use edge_idempotency_engine::policy::{Mode, PolicyKind};
use edge_idempotency_engine::problem::Reason;

/// The header with the key.
const KEY: &str = "idempotency-key";

/// `1 character`, `2 characters`
fn characters(number: usize) -> String {
    if number == 1 { "1 character".to_owned() } else { format!("{number} characters") }
}

impl Told<'_> {
    pub(super) fn policy_step(&self, found: &Found<'_>) -> Option<Step> {
        let name = found.find(|event| if let TraceEvent::Policy(name) = event { Some(*name) } else { None })?;
        let meaning = match name {
            "REQUIRED_A" => "a key is required, and the filter rewrites it",
            "REQUIRED_B" => "the filter makes the key from the webhook's delivery",
            "ACCEPTED" => "a key is rewritten; a request without one is forwarded and not deduplicated",
            "HANDLER_INTERNAL_C" => {
                "a key is removed unread, because the handler deduplicates or the operation takes no key"
            }
            "PROHIBITED" => "no key is allowed here",
            _ => "the filter refuses what no route declares",
        };
        let mut step = Step::new(found.step, format!("{name}: {meaning}."));
        if self.route.is_some_and(|route| route.mode == Mode::Shadow) {
            step.details.push("mode is shadow: refusals of a key, and the rewrite, are not carried out".to_owned());
        }
        Some(step)
    }

    pub(super) fn key_step(&self, found: &Found<'_>, hints: &mut Vec<String>) -> Option<Step> {
        let step = |text: String| Some(Step::new(found.step, text));
        let is_kept = |event: &TraceEvent| !matches!(event, TraceEvent::KeyUnread);
        if self.exchange.is_operation() {
            return step(match found.problem {
                Some(problem) => problem.detail.clone().into_owned(),
                None => "The path names an operation of this caller.".to_owned(),
            });
        }
        if self.exchange.is_recovery() {
            return step(match (found.problem, found.namespaced()) {
                (None, Some(key)) => format!("The path names the key; the caller's namespace makes it {key}."),
                (Some(problem), _) => format!("The path names the key, which is refused: {}", problem.detail),
                (None, None) => "The path names the key.".to_owned(),
            });
        }
        if self.route.is_some_and(|route| route.webhook.is_some()) {
            return Some(self.webhook_key(found));
        }
        if found.has(|event| matches!(event, TraceEvent::NoKey)) {
            let takes_keys = self.exchange.policy_name() != Some(PolicyKind::Prohibited.name());
            if let (true, Some(other)) =
                (takes_keys && found.events.iter().all(|event| is_kept(event)), self.similar_header())
            {
                hints.push(format!("The request has the header `{other}`: rename it to `Idempotency-Key`."));
            }
            return step("The request has no Idempotency-Key.".to_owned());
        }
        hints.extend(self.characters_to_change(found));
        found.find(|event| match event {
            TraceEvent::KeyUnread => Some(Step::new(found.step, "The key is removed unread.")),
            TraceEvent::KeyProhibited => {
                Some(Step::new(found.step, "The request has a key, and none is allowed here."))
            }
            TraceEvent::KeySent(syntax) => Some(self.client_key(found, *syntax)),
            _ => None,
        })
    }

    /// Which characters of a refused key are outside of the alphabet, and what allows them.
    fn characters_to_change(&self, found: &Found<'_>) -> Option<String> {
        let of_client = self.exchange.signer(self.policy).is_none();
        let is_charset = of_client && found.problem.is_some_and(|problem| problem.reason == Some(Reason::KeyCharset));
        let grammar = KeyCharset::Visible.grammar();
        let (raw, _) = key::read_as(grammar, self.key_lines()).ok().flatten().filter(|_| is_charset)?;
        let mut outside: Vec<char> = raw.as_str().chars().collect();
        outside.retain(|one| !one.is_ascii_alphanumeric() && !"._~-".contains(*one));
        outside.sort_unstable();
        outside.dedup();
        let shown: Vec<String> = outside.iter().map(|one| format!("`{one}`")).collect();
        Some(format!(
            "Write - or . in the place of {}. If clients have to send such keys, let the route take them: `\"key\": {{\"charset\": \
             \"visible\"}}`.",
            shown.join(", ")
        ))
    }

    /// The key of a client, or of a signed caller.
    fn client_key(&self, found: &Found<'_>, syntax: KeySyntax) -> Step {
        let shown = match self.values(KEY).join(", ") {
            none if none.is_empty() && self.key_lines().next().is_none() => {
                "What is in another place (`key.from`)".to_owned()
            }
            sent => format!("`{sent}`"),
        };
        let form = match syntax {
            KeySyntax::Quoted => "a Structured Field string",
            KeySyntax::Repeated => "more than one value",
            KeySyntax::Bare => "a bare text",
        };
        let raw = found.find(|event| if let TraceEvent::KeyRead(raw) = event { Some(raw.as_str()) } else { None });
        let text = match (found.problem, raw) {
            (Some(problem), _) => {
                let reason = problem.reason.map_or("", Reason::name);
                format!("{shown} is {form} and is refused, reason {reason}: {}", problem.detail)
            }
            (None, Some(raw)) => format!("{shown} is {form}; the key is {raw}, {}.", characters(raw.len())),
            (None, None) => format!("{shown} is {form}."),
        };
        let rules = self.route.and_then(|route| route.key.as_deref());
        // The rules are for clients, and not for callers that sign.
        let rules = rules.filter(|_| self.exchange.signer(self.policy).is_none());
        let namespaced = found
            .namespaced()
            .map(|key| format!("in the caller's namespace: {key} ({} of {MAX_NAMESPACED_LENGTH} bytes)", key.len()));
        Step::new(found.step, text).with(rules.map(|rules| self.rules(rules)).unwrap_or_default()).with(namespaced)
    }

    fn key_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(|(name, _)| *name == KEY.as_bytes()).map(|(_, value)| value)
    }

    /// Each rule of the policy for keys, and whether this key keeps it.
    fn rules(&self, rules: &KeyRules) -> Vec<String> {
        let mut told = Vec::new();
        let raw = key::read_as(rules.charset.grammar(), self.key_lines()).ok().flatten().map(|(raw, _)| raw);
        let mut tell = |rule: String, one: KeyRules| {
            let now = || self.request.now_unix_ms;
            let result = match &raw {
                Some(raw) => one.check(raw, Some(&now)),
                None => return told.push(format!("{rule}: not looked at")),
            };
            told.push(match result {
                Ok(()) => format!("{rule}: kept"),
                Err(why) => format!("{rule}: broken. {}", one.detail(why)),
            });
        };
        if rules.charset == KeyCharset::Visible {
            tell("rule charset visible".to_owned(), KeyRules::default());
        }
        let format = match rules.format {
            KeyFormat::Any => None,
            KeyFormat::Uuid => Some("uuid"),
            KeyFormat::Uuid7 => Some("uuid7"),
            KeyFormat::Ulid => Some("ulid"),
        };
        if let Some(name) = format {
            tell(format!("rule format {name}"), KeyRules { format: rules.format, ..KeyRules::default() });
        }
        if let Some(pattern) = &rules.pattern {
            let one = KeyRules { pattern: Some(pattern.clone()), ..KeyRules::default() };
            tell(format!("rule pattern {pattern}"), one);
        }
        if let Some(max_age) = &rules.max_age {
            let one = KeyRules { format: rules.format, max_age: Some(max_age.clone()), ..KeyRules::default() };
            tell(format!("rule max_age {}", max_age.text), one);
        }
        told
    }

    /// The key of a delivery.
    fn webhook_key(&self, found: &Found<'_>) -> Step {
        let step = match (found.problem, found.namespaced()) {
            (Some(problem), _) => self.refused_delivery(found, problem),
            (None, Some(key)) => Step::new(found.step, format!("The delivery's identifier makes the key {key}.")),
            (None, None) => Step::new(found.step, "The delivery has no key."),
        };
        step.with((!self.values(KEY).is_empty()).then(|| "the sender's Idempotency-Key is discarded".to_owned()))
    }

    /// A header in which a client may have meant to send its key.
    fn similar_header(&self) -> Option<String> {
        let names = self.headers.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        names.into_iter().find(|name| {
            let plain = name.replace(['-', '_'], "");
            plain != "idempotencykey" && plain.contains("idempoten") && !plain.starts_with("xedge")
                || name == "idempotency_key"
        })
    }
}
