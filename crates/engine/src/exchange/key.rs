//! Decides about the key of a request: whether its policy allows one, whether it fits the grammar and the route's rules, and how it reads
//! in the namespace of its caller. Signed callers' keys have a grammar of their own.

use super::Exchange;
use super::body_key::unread_body;
use super::caller::Caller;
use super::decision::{CallerKey, Decision, EnforcedDecision};
use super::facts::KeyPresence;
use super::head::EditedLines;
use super::outcome::Case;
use super::route::RoutedRequest;
use super::trace::{TraceEvent, TraceStep};
use crate::key::{self, KeyError, KeyGrammar, KeyPlace, KeyRules, KeySyntax, RawKey};
use crate::policy::target::Target;
use crate::policy::{Mode, Policy, PolicyKind};
use crate::problem::Problem;
use crate::provider::IdentifierKind;
use std::borrow::Cow;

/// What was found in a body that may hold the key.
pub(crate) type KeyInBody = Result<Option<Vec<u8>>, KeyError>;

/// Where a key in a header is, as logs write it.
const IN_HEADER: &str = "header";

/// How the keys of a request's caller are read.
pub(crate) struct KeyReading<'k> {
    grammar: &'k KeyGrammar,
    /// For clients, the route's rules and the clock.
    rules: Option<(&'k KeyRules, &'k dyn Fn() -> u64)>,
}

impl<'k> KeyReading<'k> {
    /// Clients' keys.
    pub(crate) fn of_clients(rules: Option<&'k KeyRules>, now_unix_ms: &'k dyn Fn() -> u64) -> Self {
        let grammar = rules.map_or(&KeyGrammar::CLIENT, |rules| rules.charset.grammar());
        Self { grammar, rules: rules.map(|rules| (rules, now_unix_ms)) }
    }

    /// The keys of a signed caller, for which the rules of clients do not hold.
    pub(crate) const fn of_caller(grammar: &'k KeyGrammar) -> Self {
        Self { grammar, rules: None }
    }

    /// Where keys are, beside `Idempotency-Key`.
    fn places(&self) -> &'k [KeyPlace] {
        self.rules.map_or(&[], |(rules, _)| &rules.from)
    }

    /// The key of a request, from its first line and the form of what was sent. A body (`None`) has the key as it is.
    fn read<'a>(&self, value: Cow<'a, [u8]>, syntax: Option<KeySyntax>) -> Result<RawKey<'a>, KeyError> {
        let raw = match (syntax, value) {
            (Some(syntax), Cow::Borrowed(line)) => key::read_line(self.grammar, line, syntax)?,
            (_, value) => self.grammar.parse_text(value)?,
        };
        if let Some((rules, now_unix_ms)) = self.rules {
            rules.check(&raw, Some(now_unix_ms))?;
        }
        Ok(raw)
    }

    /// The problem of a key that is refused.
    pub(crate) fn problem(&self, why: KeyError) -> Problem {
        self.rules.map_or_else(|| Problem::key_invalid(why), |(rules, _)| Problem::key_refused(why, rules))
    }
}

/// Decides about key and identity. This makes no effects.
pub(crate) fn decide_key(
    exchange: &mut Exchange,
    policy: &Policy,
    request: &RoutedRequest<'_, '_>,
    keys: &KeyReading<'_>,
    caller: &Caller<'_>,
) -> Result<Decision, Problem> {
    let RoutedRequest { matched, edited, .. } = *request;
    let mut decision = match &matched.refused {
        Some(problem) => shadow(EnforcedDecision::Refused(problem.clone(), None), edited),
        None => evaluate_key(exchange, policy, request, keys, caller)?,
    };
    if decision.identity().is_none() {
        let needed = matched.target().is_some_and(Target::needs_identity);
        let tagged = matched.target().is_some() && exchange.operations(policy).is_some();
        if needed || tagged || policy.identity_of(matched.route).forward.names().next().is_some() {
            exchange.begin(TraceStep::Identity);
            match caller.resolve() {
                Ok(identity) => {
                    exchange.note(|| TraceEvent::Identity(Box::new(identity.clone())));
                    decision.add_identity(identity);
                }
                Err(why) if needed => return Err(Problem::identity(&why)),
                Err(_) => {}
            }
        }
    }
    Ok(decision)
}

/// Checks policy, key present, key grammar, identity and namespaced length. In shadow mode a failed check has no
/// effect, except that a key which looks like a namespaced one is removed.
fn evaluate_key(
    exchange: &mut Exchange,
    policy: &Policy,
    request: &RoutedRequest<'_, '_>,
    keys: &KeyReading<'_>,
    caller: &Caller<'_>,
) -> Result<Decision, Problem> {
    let RoutedRequest { matched, edited, .. } = *request;
    exchange.begin(TraceStep::Key);
    let body_is_read = exchange.body_key.is_some();
    let has_key = edited.has_key() || syntax_elsewhere(edited, keys, exchange.body_key.as_deref()).is_some();
    if !has_key {
        exchange.note(|| TraceEvent::NoKey);
    }
    match matched.kind {
        PolicyKind::HandlerInternalC => {
            exchange.facts.case = Some(Case::C);
            exchange.note(|| TraceEvent::KeyUnread);
            // Restate would run a key of the client's that enforcing removes.
            let keeps = matched.mode == Mode::Shadow && !policy.backend_of(matched.route).abilities().acts_on_raw_keys;
            return Ok(match keeps {
                true => shadow(EnforcedDecision::Unkeyed(None), edited),
                false => Decision::default(),
            });
        }
        PolicyKind::RequiredA => exchange.facts.case = Some(Case::A),
        PolicyKind::Accepted if has_key => exchange.facts.case = Some(Case::A),
        _ => {}
    }
    let result = match matched.kind {
        PolicyKind::Prohibited if has_key => {
            exchange.note(|| TraceEvent::KeyProhibited);
            Err(Problem::key_prohibited())
        }
        PolicyKind::Prohibited => Ok(None),
        _ => namespaced(exchange, request, keys, caller),
    };
    if matched.mode == Mode::Enforce {
        return result.map(|key| key.map_or_else(Decision::default, Decision::Keyed));
    }
    // Nobody knows whether the body holds a key.
    let result = match unread_body(matched, request.headers).filter(|_| !has_key && !body_is_read) {
        Some(said) => {
            exchange.facts.key = KeyPresence::Unread;
            said.map_or(Ok(None), Err)
        }
        None => result,
    };
    let enforced = match result {
        Ok(Some(key)) => EnforcedDecision::Keyed(key),
        Ok(None) => EnforcedDecision::Unkeyed(None),
        Err(problem) => {
            exchange.note(|| TraceEvent::WouldBeRefused(Box::new(problem.clone())));
            EnforcedDecision::Refused(Box::new(problem), None)
        }
    };
    Ok(shadow(enforced, edited))
}

/// The namespaced key; `None` if the request goes on without a key.
fn namespaced(
    exchange: &mut Exchange,
    request: &RoutedRequest<'_, '_>,
    keys: &KeyReading<'_>,
    caller: &Caller<'_>,
) -> Result<Option<CallerKey>, Problem> {
    let RoutedRequest { matched, edited, .. } = *request;
    let body = exchange.body_key.take().map(|found| *found);
    let syntax = KeySyntax::of(edited.key_lines()).or_else(|| syntax_elsewhere(edited, keys, body.as_ref()));
    exchange.facts.key = syntax.map_or(KeyPresence::Absent, KeyPresence::Sent);
    let Some(syntax) = syntax else {
        let rules = keys.rules.map(|(rules, _)| rules);
        return if matched.kind == PolicyKind::RequiredA { Err(Problem::key_required(rules)) } else { Ok(None) };
    };
    exchange.note(|| TraceEvent::KeySent(syntax));
    let (raw, source) = read_key(edited, keys, syntax, body).map_err(|why| keys.problem(why))?;
    exchange.facts.source = Some(source);
    exchange.note(|| TraceEvent::KeyRead(raw.as_str().to_owned()));
    exchange.begin(TraceStep::Identity);
    let caller = caller.resolve().map_err(|why| Problem::identity(&why))?;
    exchange.note(|| TraceEvent::Identity(Box::new(caller.clone())));
    exchange.begin(TraceStep::Key);
    let text = key::encode(&matched.key_owner(&caller), raw.as_str()).map_err(Problem::key_invalid)?;
    exchange.note(|| TraceEvent::KeyNamespaced(text.clone()));
    Ok(Some(CallerKey { caller, text, syntax: Some(syntax) }))
}

/// The form of a key that is in another place than `Idempotency-Key`.
#[inline(never)]
fn syntax_elsewhere(edited: &EditedLines<'_>, keys: &KeyReading<'_>, body: Option<&KeyInBody>) -> Option<KeySyntax> {
    let mut headers = keys.places().iter().filter_map(KeyPlace::header);
    let of_header = headers.find_map(|name| KeySyntax::of(edited.lines_of(name)));
    of_header.or_else(|| body.filter(|found| !matches!(found, Ok(None))).map(|_| KeySyntax::Bare))
}

/// The key of a request from all of its places, which have to hold the same one; and the first of these.
///
/// # Errors
/// The first place that holds no valid key, or another one than the places before it.
fn read_key<'a>(
    edited: &EditedLines<'a>,
    keys: &KeyReading<'_>,
    syntax: KeySyntax,
    body: Option<KeyInBody>,
) -> Result<(RawKey<'a>, &'static str), KeyError> {
    let first = edited.key_lines().next().map(|line| keys.read(Cow::Borrowed(line), Some(syntax))).transpose()?;
    match first {
        Some(key) if keys.places().is_empty() => Ok((key, IN_HEADER)),
        first => read_elsewhere(edited, keys, first, body),
    }
}

/// As [`read_key`], with the places beside `Idempotency-Key`, which holds `first`.
#[inline(never)]
fn read_elsewhere<'a>(
    edited: &EditedLines<'a>,
    keys: &KeyReading<'_>,
    first: Option<RawKey<'a>>,
    body: Option<KeyInBody>,
) -> Result<(RawKey<'a>, &'static str), KeyError> {
    let mut found = first.map(|key| (key, IN_HEADER));
    let mut add = |key: RawKey<'a>, source| match &found {
        Some((first, _)) if *first != key => Err(KeyError::Places),
        Some(_) => Ok(()),
        None => {
            found = Some((key, source));
            Ok(())
        }
    };
    for name in keys.places().iter().filter_map(KeyPlace::header) {
        let mut lines = edited.lines_of(name);
        if let Some((line, syntax)) = lines.next().zip(KeySyntax::of(edited.lines_of(name))) {
            add(keys.read(Cow::Borrowed(line), Some(syntax))?, IN_HEADER)?;
        }
    }
    if let Some(text) = body.transpose()?.flatten() {
        add(keys.read(Cow::Owned(text), None)?, IdentifierKind::Json.name())?;
    }
    found.ok_or(KeyError::Empty)
}

/// The decision about a request in shadow mode: it keeps its key, unless that looks like a namespaced one.
fn shadow(enforced: EnforcedDecision, edited: &EditedLines<'_>) -> Decision {
    let sends_key = matches!(edited.key, [Some(line), None] if !key::is_forged(line));
    Decision::Shadow { enforced, sends_key }
}
