//! Asks on a terminal for what the options leave open.

use super::answers::{BackendChoice, GatewayChoice, IdentityKind, InitAnswers, POLICIES, RouteAnswer};
use crate::explain::terminal_text::printable;
use crate::render::needs::EVERYBODY;
use dialoguer::{Confirm, Input, Select, theme::ColorfulTheme, theme::SimpleTheme, theme::Theme};

/// What options say; `None` where somebody has to be asked, or the usual answer taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenAnswers {
    pub(crate) gateway: Option<GatewayChoice>,
    pub(crate) backend: Option<BackendChoice>,
    pub(crate) cluster: Option<String>,
    pub(crate) identity: Option<IdentityKind>,
    pub(crate) owner: Option<String>,
    pub(crate) key_header: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) routes: Vec<RouteAnswer>,
    pub(crate) shadow: Option<bool>,
    pub(crate) unmatched: Option<String>,
    pub(crate) docs_url: Option<String>,
}

/// Somebody who answers.
pub(crate) trait Respondent {
    /// The number of the chosen item.
    ///
    /// # Errors
    /// Nobody answers any more.
    fn choose(&mut self, question: &str, items: &[&str]) -> Result<usize, String>;
    /// A text that `fits`.
    ///
    /// # Errors
    /// As [`Respondent::choose`].
    fn text(&mut self, question: &str, usual: &str, fits: fn(&str) -> Result<(), String>) -> Result<String, String>;
    /// Yes or no.
    ///
    /// # Errors
    /// As [`Respondent::choose`].
    fn confirm(&mut self, question: &str, usual: bool) -> Result<bool, String>;
}

/// Takes the usual answer to every question (`--yes`).
pub(crate) struct UsualAnswers;

impl Respondent for UsualAnswers {
    fn choose(&mut self, _: &str, _: &[&str]) -> Result<usize, String> {
        Ok(0)
    }

    fn text(&mut self, _: &str, usual: &str, _: fn(&str) -> Result<(), String>) -> Result<String, String> {
        Ok(usual.to_owned())
    }

    fn confirm(&mut self, _: &str, usual: bool) -> Result<bool, String> {
        Ok(usual)
    }
}

/// A person at a terminal. Questions are written to standard error.
pub(crate) struct Terminal(Box<dyn Theme>);

impl Terminal {
    /// With colours, unless `NO_COLOR` is set. Questions hide the cursor, so Ctrl-C shows it again.
    pub(crate) fn new() -> Self {
        // If the signal cannot be caught, Ctrl-C ends the command as it always does.
        let _ = ctrlc::set_handler(stopped);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(if plain { Box::new(SimpleTheme) } else { Box::new(ColorfulTheme::default()) })
    }
}

/// Leaves the terminal as it was, and ends the command with the exit status of shells for Ctrl-C.
fn stopped() {
    // A terminal that is gone has no cursor.
    let _ = console::Term::stderr().show_cursor();
    std::process::exit(130);
}

fn gone(error: dialoguer::Error) -> String {
    let dialoguer::Error::IO(reason) = &error;
    // Questions read keys one by one, and get Ctrl-C as an error.
    if reason.kind() == std::io::ErrorKind::Interrupted {
        stopped();
    }
    let _ = console::Term::stderr().show_cursor();
    format!("the terminal: {error}; --yes with options asks nothing")
}

impl Respondent for Terminal {
    fn choose(&mut self, question: &str, items: &[&str]) -> Result<usize, String> {
        Select::with_theme(&*self.0).with_prompt(printable(question)).items(items).default(0).interact().map_err(gone)
    }

    fn text(&mut self, question: &str, usual: &str, fits: fn(&str) -> Result<(), String>) -> Result<String, String> {
        let input = Input::<String>::with_theme(&*self.0).with_prompt(printable(question));
        let input = if usual.is_empty() { input.allow_empty(true) } else { input.default(usual.to_owned()) };
        input.validate_with(|text: &String| fits(text)).interact_text().map_err(gone)
    }

    fn confirm(&mut self, question: &str, usual: bool) -> Result<bool, String> {
        Confirm::with_theme(&*self.0).with_prompt(printable(question)).default(usual).interact().map_err(gone)
    }
}

/// Fills in what is not given.
///
/// # Errors
/// Nobody answers any more, or KrakenD cannot have what is given.
pub(crate) fn ask(given: GivenAnswers, respondent: &mut dyn Respondent) -> Result<InitAnswers, String> {
    let gateway = match given.gateway {
        Some(gateway) => gateway,
        None => match respondent.choose("Which gateway is it?", &["Envoy, or what has Envoy inside", "KrakenD"])? {
            0 => GatewayChoice::Envoy,
            _ => GatewayChoice::Krakend,
        },
    };
    let backend = match given.backend {
        Some(backend) => backend,
        None => {
            let items = [
                "an API or service of mine that deduplicates by Idempotency-Key itself",
                "one that knows nothing of keys: the recorder before it keeps its answers",
                "Restate",
            ];
            match respondent.choose("Which backend is behind the gateway?", &items)? {
                0 => BackendChoice::Generic,
                1 => BackendChoice::Recorder,
                _ => BackendChoice::Restate,
            }
        }
    };
    let mut text = |given: Option<String>, question: &str, usual: &str| match given {
        Some(text) => Ok(text),
        None => respondent.text(question, usual, filled),
    };
    let cluster = match backend {
        BackendChoice::Restate => text(
            given.cluster,
            "The gateway's name for Restate (a cluster of Envoy, an upstream of the bridge)",
            "restate",
        )?,
        BackendChoice::Generic | BackendChoice::Recorder => String::new(),
    };
    let identity = match given.identity {
        Some(IdentityKind::Headers | IdentityKind::Everybody) if gateway == GatewayChoice::Krakend => {
            return Err(
                "KrakenD has no filter that owns headers, so a client could set them: take --identity jwt or --identity api-key"
                    .to_owned()
            );
        }
        Some(identity) => identity,
        None => {
            let all = [
                ("claims of a token (JWT) that the gateway verifies", IdentityKind::Jwt),
                ("API keys that Unkey knows", IdentityKind::ApiKey),
                ("headers that a filter of the gateway sets", IdentityKind::Headers),
                ("nowhere: all callers share their keys, as in a trial", IdentityKind::Everybody),
            ];
            let by_header = |kind: IdentityKind| matches!(kind, IdentityKind::Headers | IdentityKind::Everybody);
            let can_be = |kind: IdentityKind| gateway != GatewayChoice::Krakend || !by_header(kind);
            let (items, kinds): (Vec<&str>, Vec<IdentityKind>) =
                all.into_iter().filter(|(_, kind)| can_be(*kind)).unzip();
            let chosen = respondent.choose("Where does the caller's identity come from?", &items)?;
            kinds.get(chosen).copied().unwrap_or(IdentityKind::Jwt)
        }
    };
    let mut text = |given: Option<String>, question: &str, usual: &str| match given {
        Some(text) => Ok(text),
        None if identity == IdentityKind::Everybody => Ok(usual.to_owned()),
        None => respondent.text(question, usual, filled),
    };
    let (what, names) = match identity {
        IdentityKind::Jwt => ("claim", ["tenant_id", "project_id", "sub"]),
        IdentityKind::Headers => ("header", ["x-auth-tenant", "x-auth-project", "x-auth-subject"]),
        IdentityKind::Everybody => ("header", ["x-public-tenant", "=main", "=client:anonymous"]),
        IdentityKind::ApiKey => {
            ("JSON pointer into Unkey's reply", ["/identity/externalId", "/meta/project_id", "/keyId"])
        }
    };
    let owner = match identity {
        IdentityKind::Headers => text(given.owner, "The filter that sets them", "envoy.filters.http.ext_authz")?,
        IdentityKind::Everybody => EVERYBODY.to_owned(),
        IdentityKind::Jwt | IdentityKind::ApiKey => String::new(),
    };
    let key_header = match identity {
        IdentityKind::ApiKey => text(given.key_header, "The header with the API key", "x-api-key")?,
        IdentityKind::Jwt | IdentityKind::Headers | IdentityKind::Everybody => String::new(),
    };
    let [tenant, project, subject] = names;
    let tenant =
        text(given.tenant, &format!("The {what} with the tenant (your customer), or =NAME if there is one"), tenant)?;
    let project = text(
        given.project,
        &format!("The {what} with the project (a part of a tenant), or =NAME if there is one"),
        project,
    )?;
    let subject = text(given.subject, &format!("The {what} with the user or machine that calls"), subject)?;
    let routes = if given.routes.is_empty() { ask_routes(backend, respondent)? } else { given.routes };
    let shadow = match given.shadow {
        Some(shadow) => shadow,
        None => respondent.confirm(
            "Begin in shadow mode, in which the filter counts what it would refuse, and lets it pass?",
            false,
        )?,
    };
    Ok(InitAnswers {
        gateway,
        backend,
        cluster,
        identity,
        owner,
        key_header,
        tenant,
        project,
        subject,
        routes,
        shadow,
        unmatched: given.unmatched,
        docs_url: given.docs_url,
    })
}

fn ask_routes(backend: BackendChoice, respondent: &mut dyn Respondent) -> Result<Vec<RouteAnswer>, String> {
    let meanings = [
        "REQUIRED_A: a key is required",
        "ACCEPTED: a key is used if there is one",
        "PROHIBITED: a key is refused (reads)",
        "HANDLER_INTERNAL_C: a key is removed; the handler deduplicates by itself, or there is nothing to repeat",
    ];
    let mut routes = Vec::new();
    loop {
        let question = "A route: method and path, with parameters in braces";
        let place = respondent
            .text(question, "POST /orders", |text| RouteAnswer::parse(&format!("{text} ACCEPTED")).map(drop))?;
        let policy = respondent.choose("Its policy", &meanings)?;
        let policy = POLICIES.get(policy).copied().unwrap_or("REQUIRED_A");
        let mut route = RouteAnswer::parse(&format!("{place} {policy}"))?;
        if backend == BackendChoice::Restate {
            route.target =
                Some(respondent.text("Its target in Restate, Service/handler", &route.usual_target(), filled)?);
        }
        routes.push(route);
        if !respondent.confirm("One more route?", false)? {
            return Ok(routes);
        }
    }
}

fn filled(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("write a name".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_idempotency_engine::Policy;

    /// Answers as they were written down before.
    struct Script(Vec<&'static str>);

    impl Script {
        fn next(&mut self, question: &str) -> &'static str {
            assert!(!self.0.is_empty(), "nobody expected: {question}");
            self.0.remove(0)
        }
    }

    impl Respondent for Script {
        fn choose(&mut self, question: &str, items: &[&str]) -> Result<usize, String> {
            let answer = self.next(question);
            Ok(items.iter().position(|item| item.contains(answer)).unwrap())
        }

        fn text(
            &mut self,
            question: &str,
            usual: &str,
            fits: fn(&str) -> Result<(), String>,
        ) -> Result<String, String> {
            let answer = match self.next(question) {
                "" => usual,
                answer => answer,
            };
            fits(answer).map(|()| answer.to_owned())
        }

        fn confirm(&mut self, question: &str, _: bool) -> Result<bool, String> {
            Ok(self.next(question) == "yes")
        }
    }

    fn document(given: GivenAnswers, answers: &[&'static str]) -> String {
        let mut script = Script(answers.to_vec());
        let document = ask(given, &mut script).unwrap().document();
        assert!(script.0.is_empty(), "not asked for: {:?}", script.0);
        if let Err(errors) = Policy::from_json(document.as_bytes()) {
            panic!("{:?}\n{document}", errors.0);
        }
        document
    }

    #[test]
    fn every_way_through_the_questions_gives_a_policy() {
        let made = document(
            GivenAnswers::default(),
            &[
                "Envoy",
                "Restate",
                "",
                "headers",
                "",
                "",
                "=main",
                "",
                "POST /refunds",
                "REQUIRED_A",
                "",
                "yes",
                "GET /refunds/{id}",
                "PROHIBITED",
                "Refunds/{id}/get",
                "no",
                "yes",
            ],
        );
        for part in [
            r#""mode": "shadow""#,
            r#""target": "Refunds/create""#,
            r#""headers_owned_by": "envoy.filters.http.ext_authz""#,
            r#""project": {"value": "main"}"#,
            r#""cluster": "restate""#,
            r#""endpoint": "refunds.get", "methods": ["GET"]"#,
        ] {
            assert!(made.contains(part), "{part}: {made}");
        }
        document(
            GivenAnswers::default(),
            &["Envoy", "an API", "claims", "org", "", "", "PUT /orders/{id}", "ACCEPTED", "no", "no"],
        );
    }

    /// KrakenD chooses the endpoint, and reads identities from tokens or API keys alone.
    #[test]
    fn a_policy_for_krakend_is_one_that_krakend_can_serve() {
        let made = document(
            GivenAnswers::default(),
            &["KrakenD", "an API", "claims", "", "=main", "", "POST /orders", "REQUIRED_A", "no", "no"],
        );
        assert!(made.contains("\"gateway_routes\": true") && made.contains("[\"krakend\", \"jwt\"]"), "{made}");
        let keys = ["KrakenD", "an API", "API keys", "", "", "", "", "POST /orders", "REQUIRED_A", "no", "no"];
        let made = document(GivenAnswers::default(), &keys);
        for part in [r#""header": "x-api-key""#, r#""root_key": {"env": "UNKEY_ROOT_KEY"}"#, r#""field": "/keyId""#] {
            assert!(made.contains(part), "{part}: {made}");
        }
        let made = document(
            GivenAnswers::default(),
            &["Envoy", "an API", "API keys", "x-partner", "", "=main", "", "POST /orders", "REQUIRED_A", "no", "no"],
        );
        assert!(made.contains(r#""header": "x-partner""#) && !made.contains("root_key"), "{made}");
        let headers = GivenAnswers {
            gateway: Some(GatewayChoice::Krakend),
            identity: Some(IdentityKind::Headers),
            ..GivenAnswers::default()
        };
        assert!(ask(headers, &mut UsualAnswers).unwrap_err().contains("--identity jwt"));
    }

    #[test]
    fn everybody_is_one_caller() {
        let answers = ["Envoy", "one that", "nowhere", "POST /orders", "REQUIRED_A", "no", "no"];
        let made = document(GivenAnswers::default(), &answers);
        for part in [r#""headers_owned_by": "everybody""#, r#""subject": {"value": "client:anonymous"}"#] {
            assert!(made.contains(part), "{part}: {made}");
        }
    }

    #[test]
    fn a_recorder_compares() {
        let answers = ["Envoy", "one that", "claims", "org", "", "", "POST /orders", "REQUIRED_A", "no", "no"];
        let made = document(GivenAnswers::default(), &answers);
        assert!(made.contains(r#""kind": "generic""#) && made.contains(r#""collision": "forward""#), "{made}");
    }

    #[test]
    fn what_options_say_is_not_asked_for() {
        let given = GivenAnswers {
            gateway: Some(GatewayChoice::Envoy),
            backend: Some(BackendChoice::Generic),
            identity: Some(IdentityKind::Jwt),
            tenant: Some("org".to_owned()),
            project: Some("=main".to_owned()),
            subject: Some("sub".to_owned()),
            routes: vec![
                RouteAnswer::parse("POST /a REQUIRED_A").unwrap(),
                RouteAnswer::parse("POST /api/a ACCEPTED").unwrap(),
            ],
            shadow: Some(false),
            unmatched: Some("PROHIBITED".to_owned()),
            ..GivenAnswers::default()
        };
        let made = document(given, &[]);
        assert!(made.contains("\"a.create\"") && made.contains("\"a.create-2\""), "{made}");
    }
}
