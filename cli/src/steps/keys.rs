//! Policy and key: what the route asks for, the form of the key, and the rules for it.

use super::{Decided, Step, StepName};
use edge_idempotency_engine::key::{self, KeyError, KeyFormat, KeyGrammar, KeyRules, KeySyntax, MAX_NAMESPACED_LENGTH};
use edge_idempotency_engine::policy::{Mode, PolicyKind};
use edge_idempotency_engine::problem::{Code, Reason};

/// The header with the key.
const KEY: &str = "idempotency-key";

/// `1 character`, `2 characters`
fn characters(number: usize) -> String {
    if number == 1 { "1 character".to_owned() } else { format!("{number} characters") }
}

impl Decided<'_> {
    pub(super) fn policy_step(&self) -> Option<Step> {
        let name = self.exchange.policy_name()?;
        let meaning = match name {
            "REQUIRED_A" => "a key is required, and the filter rewrites it",
            "REQUIRED_B" => "the filter makes the key from the webhook's delivery",
            "ACCEPTED" => "a key is rewritten; a request without one is forwarded and not deduplicated",
            "HANDLER_INTERNAL_C" => "the handler deduplicates by itself, and a key is removed unread",
            "PROHIBITED" => "no key is allowed here",
            _ => "the filter refuses what no route declares",
        };
        let mut step = Step::new(StepName::Policy, format!("{name}: {meaning}."));
        if self.route.is_some_and(|route| route.mode == Mode::Shadow) {
            step.details.push("mode is shadow: refusals of a key, and the rewrite, are not carried out".to_owned());
        }
        Some(step)
    }

    pub(super) fn key_step(&self, hints: &mut Vec<String>) -> Option<Step> {
        if self.exchange.is_recovery() || self.exchange.is_operation() {
            let key = self.exchange.key()?;
            return Some(Step::new(
                StepName::Key,
                format!("The path names the key; the caller's namespace makes it {key}."),
            ));
        }
        let name = self.exchange.policy_name()?;
        let lines = self.values(KEY);
        let is_c = name == PolicyKind::HandlerInternalC.name();
        let rules = self.route.and_then(|route| route.key.as_deref());
        let step = |text: String| Some(Step::new(StepName::Key, text));
        if self.route.is_some_and(|route| route.webhook.is_some()) {
            return self.webhook_key();
        }
        if lines.is_empty() {
            if let (true, Some(other)) = (name != PolicyKind::Prohibited.name() && !is_c, self.similar_header()) {
                hints.push(format!("The request has the header `{other}`: rename it to `Idempotency-Key`."));
            }
            return step("The request has no Idempotency-Key.".to_owned());
        }
        if is_c {
            return step("The key is removed unread.".to_owned());
        }
        if name == PolicyKind::Prohibited.name() {
            return match self.is_refused_by(&[Code::KeyProhibited]) {
                Some(_) => step("The request has a key, and none is allowed here.".to_owned()),
                None => step("The key is removed (`on_prohibited: strip`).".to_owned()),
            };
        }
        Some(self.client_key(&lines, rules))
    }

    /// The key of a client, or of a signed caller.
    fn client_key(&self, lines: &[String], rules: Option<&KeyRules>) -> Step {
        let form = KeySyntax::of(lines.iter().map(|line| line.as_bytes()));
        let shown = lines.join(", ");
        let form = match form {
            Some(KeySyntax::Quoted) => "a Structured Field string",
            Some(KeySyntax::Repeated) => "more than one value",
            _ => "a bare text",
        };
        let signed = self.exchange.signer(self.policy).is_some();
        let problem = self.is_refused_by(&[Code::KeyInvalid]);
        let step = match (problem, key::read_as(&KeyGrammar::CLIENT, 0, self.key_lines())) {
            (Some(problem), _) => {
                let reason = problem.reason.map_or("", Reason::name);
                Step::new(
                    StepName::Key,
                    format!("`{shown}` is {form} and is refused, reason {reason}: {}", problem.detail),
                )
            }
            (None, Ok(Some((raw, _)))) => Step::new(
                StepName::Key,
                format!("`{shown}` is {form}; the key is {}, {}.", raw.as_str(), characters(raw.as_str().len())),
            ),
            // The grammar of a signed caller has more characters.
            (None, _) => Step::new(StepName::Key, format!("`{shown}` is {form}.")),
        };
        let rules = rules.filter(|_| !signed).map(|rules| self.rules(rules)).unwrap_or_default();
        let namespaced =
            self.exchange.key().filter(|_| problem.is_none()).map(|key| {
                format!("in the caller's namespace: {key} ({} of {MAX_NAMESPACED_LENGTH} bytes)", key.len())
            });
        step.with(rules).with(namespaced)
    }

    fn key_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(|(name, _)| *name == KEY.as_bytes()).map(|(_, value)| value)
    }

    /// Each rule of the policy for keys, and whether this key keeps it.
    fn rules(&self, rules: &KeyRules) -> Vec<String> {
        let mut told = Vec::new();
        let raw = key::read_as(&KeyGrammar::CLIENT, 0, self.key_lines()).ok().flatten().map(|(raw, _)| raw);
        let mut tell = |rule: String, one: KeyRules| {
            let now = || self.request.now_unix_ms;
            let result = match raw {
                Some(raw) if raw.as_str().len() < one.min_length => Err(KeyError::TooShort),
                Some(raw) => one.check(raw, Some(&now)),
                None => return told.push(format!("{rule}: not looked at")),
            };
            told.push(match result {
                Ok(()) => format!("{rule}: kept"),
                Err(why) => format!("{rule}: broken. {}", one.detail(why)),
            });
        };
        if rules.min_length > 1 {
            let one = KeyRules { min_length: rules.min_length, ..KeyRules::default() };
            tell(format!("rule min_length {}", rules.min_length), one);
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
    fn webhook_key(&self) -> Option<Step> {
        let step = match (self.exchange.key(), self.problem) {
            (Some(key), _) => Step::new(StepName::Key, format!("The delivery's identifier makes the key {key}.")),
            (None, Some(_)) => return None,
            (None, None) => Step::new(StepName::Key, "The delivery has no key."),
        };
        Some(step.with((!self.values(KEY).is_empty()).then(|| "the sender's Idempotency-Key is discarded".to_owned())))
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
