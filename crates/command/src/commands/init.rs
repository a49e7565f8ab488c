//! `init`: a first policy document.

use super::{BAD_INPUT, FORWARD};
use crate::init_policy::answers::{BackendChoice, GatewayChoice, IdentityKind, RouteAnswer};
use crate::init_policy::guesses::guess;
use crate::init_policy::questions::{GivenAnswers, Terminal, UsualAnswers, ask};
use crate::input::read;
use crate::lints::diagnostics::source::SourceText;
use crate::openapi::description;
use crate::output::print_document;
use crate::output::{tell, tell_text};
use clap::Args;
use edge_idempotency_engine::{Policy, PolicyErrors};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Writes a first policy document from a few answers.
///
/// It asks on the terminal for what the options do not say. The document is one that the filter starts with. Webhooks, signed
/// callers and retention are added by hand: docs/policy.md explains every member.
///
/// With --openapi the routes come from an OpenAPI description (3.0, 3.1 or 3.2). The command says on standard error for each route why
/// it has its policy, and where nothing tells, it takes ACCEPTED, which changes nothing for clients without keys. Read the list before
/// you use the document.
///
/// Exit status: 0 if the document was written; 2 if not, because the file is there already or the answers make no policy.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency init
  edge-idempotency init --yes --backend generic --project =main --route 'POST /orders REQUIRED_A' --route 'GET /orders PROHIBITED'
  edge-idempotency init --yes --gateway krakend --project =main --route 'POST /orders REQUIRED_A'
  edge-idempotency init --yes --openapi openapi.yaml policy.json
  edge-idempotency init --yes --backend restate --route 'POST /refunds REQUIRED_A Refunds/create' - | edge-idempotency check -"
)]
pub(crate) struct InitArguments {
    /// The file to write; `-` is standard output.
    #[arg(value_name = "FILE", default_value = "policy.json")]
    file: PathBuf,
    /// Asks nothing: what the options do not say gets the usual answer.
    #[arg(long, short)]
    yes: bool,
    /// Replaces the file if it is there.
    #[arg(long)]
    force: bool,
    /// The gateway [usual answer: envoy].
    #[arg(long, value_enum, hide_possible_values = false)]
    gateway: Option<GatewayChoice>,
    /// The backend behind the gateway [usual answer: generic].
    #[arg(long, value_enum, hide_possible_values = false)]
    backend: Option<BackendChoice>,
    /// The gateway's cluster of Restate, or the bridge's upstream [usual answer: restate].
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Where the caller's identity comes from [usual answer: jwt].
    #[arg(long, value_enum)]
    identity: Option<IdentityKind>,
    /// The filter that sets the identity's headers [usual answer: envoy.filters.http.ext_authz].
    #[arg(long, value_name = "FILTER")]
    headers_owned_by: Option<String>,
    /// The header with API keys [usual answer: x-api-key].
    #[arg(long, value_name = "HEADER")]
    api_key_header: Option<String>,
    /// The claim, header or JSON pointer with the tenant, or =VALUE for an API with one tenant [usual answer: tenant_id].
    #[arg(long, value_name = "NAME|=VALUE")]
    tenant: Option<String>,
    /// The claim, header or JSON pointer with the project, or =VALUE for an API with one project [usual answer: project_id].
    #[arg(long, value_name = "NAME|=VALUE")]
    project: Option<String>,
    /// The claim, header or JSON pointer with the user or machine that calls, or =TYPE:ID if all callers share keys [usual answer: sub].
    #[arg(long, value_name = "NAME|=TYPE:ID")]
    subject: Option<String>,
    /// A route: 'METHOD PATH POLICY [TARGET]', where TARGET is the Service/handler in Restate. Can be repeated
    /// [usual answer: 'POST /orders REQUIRED_A'].
    #[arg(long = "route", value_name = "ROUTE", value_parser = RouteAnswer::parse)]
    routes: Vec<RouteAnswer>,
    /// Takes the routes from an OpenAPI description in YAML or JSON; `-` is standard input, with --yes.
    #[arg(long, value_name = "FILE|-", conflicts_with = "routes")]
    openapi: Option<PathBuf>,
    /// Begins in shadow mode: the filter counts what it would refuse, and lets it pass. `check` says what acts all the same. Webhook
    /// routes of --openapi are left out, because they have no shadow mode.
    #[arg(long)]
    shadow: bool,
    /// What happens to paths that no route declares [default: REJECT].
    #[arg(long, value_parser = ["REJECT", "PROHIBITED", "HANDLER_INTERNAL_C"])]
    unmatched: Option<String>,
    /// The page about idempotency for your clients, to which refusals link.
    #[arg(long, value_name = "URL")]
    docs_url: Option<String>,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &InitArguments) -> Result<u8, String> {
    let to_output = args.file == Path::new("-");
    // Before anything is asked.
    if !to_output && !args.force && args.file.exists() {
        return Err(exists(&args.file));
    }
    let routes = match &args.openapi {
        None => args.routes.clone(),
        Some(file) => guessed(file)?,
    };
    let given = GivenAnswers {
        gateway: args.gateway,
        backend: args.backend,
        cluster: args.cluster.clone(),
        identity: args.identity,
        key_header: args.api_key_header.clone(),
        owner: args.headers_owned_by.clone(),
        tenant: args.tenant.clone(),
        project: args.project.clone(),
        subject: args.subject.clone(),
        routes,
        shadow: args.shadow.then_some(true),
        unmatched: args.unmatched.clone(),
        docs_url: args.docs_url.clone(),
    };
    let mut answers = if args.yes {
        ask(given, &mut UsualAnswers)?
    } else if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ask(given, &mut Terminal::new())?
    } else {
        return Err(
            "there is no terminal to ask on: add --yes, and options for answers that differ from the usual ones"
                .to_owned(),
        );
    };
    if answers.shadow && answers.backend != BackendChoice::Restate && args.openapi.is_some() {
        leave_webhooks(&mut answers.routes);
    }
    let mut document = answers.document();
    let mut read = Policy::from_json(document.as_bytes());
    // An operation that no policy can have does not stop the draft of the others.
    while let Err(errors) = &read
        && args.openapi.is_some()
        && leave_out(&mut answers.routes, errors)
    {
        document = answers.document();
        read = Policy::from_json(document.as_bytes());
    }
    let policy = match read {
        Ok(policy) => policy,
        Err(errors) => {
            let PolicyErrors(list) = &errors;
            tell!("these answers do not make a valid policy: {}", errors.headline());
            list.iter().for_each(|error| tell!("  {error}"));
            return Ok(BAD_INPUT);
        }
    };
    policy.warnings().iter().for_each(|warning| tell!("warning: {warning}"));
    if to_output {
        print_document(&document)?;
        return Ok(FORWARD);
    }
    write(&args.file, &document, args.force)?;
    let file = args.file.display();
    tell!("{file}: {}", policy.summary());
    if answers.backend == BackendChoice::Recorder {
        tell!(
            "before the API: recorder --upstream http://HOST:PORT; the gateway sends to the recorder (docs/backends.md)"
        );
    }
    let gateway = answers.gateway.name();
    tell!("next: edge-idempotency check {file}; edge-idempotency render {gateway} --policy {file} --help");
    Ok(FORWARD)
}

/// The routes that a description suggests. Each is told with its reason.
///
/// # Errors
/// The file cannot be read, is no description, or has no operation.
fn guessed(file: &Path) -> Result<Vec<RouteAnswer>, String> {
    let source = SourceText::new(file.display().to_string(), &read(file)?);
    let tree = description::read(&source).map_err(|error| error.told(&source))?;
    let guesses = guess(&source, &tree);
    tell_text(&guesses.told(&source.name));
    if guesses.routes.is_empty() {
        return Err(format!("{}: the description has no operation that a route can take", source.name));
    }
    Ok(guesses.routes.into_iter().map(|guess| guess.route).collect())
}

/// Removes the routes to which errors point, and says why; `false` if there is none, or no other route would be left.
fn leave_out(routes: &mut Vec<RouteAnswer>, errors: &PolicyErrors) -> bool {
    let index = |pointer: &str| pointer.strip_prefix("/routes/")?.split('/').next()?.parse::<usize>().ok();
    let wrong: BTreeMap<usize, &str> =
        errors.0.iter().filter_map(|error| Some((index(&error.pointer)?, error.message.as_str()))).collect();
    if wrong.is_empty() || wrong.len() >= routes.len() {
        return false;
    }
    let mut place = 0;
    routes.retain(|route| {
        let why = wrong.get(&place);
        place += 1;
        why.iter().for_each(|why| tell!("left out: {} {}: {why}", route.method, route.path));
        why.is_none()
    });
    true
}

/// Removes the routes of webhooks, which refuse in shadow mode, too. Without them their paths reach the API as ever.
fn leave_webhooks(routes: &mut Vec<RouteAnswer>) {
    let is_webhook = |route: &RouteAnswer| route.policy == "REQUIRED_B" || route.webhook.is_some();
    if routes.iter().all(is_webhook) {
        return;
    }
    routes.retain(|route| {
        let leaves = is_webhook(route);
        if leaves {
            let RouteAnswer { method, path, .. } = route;
            tell!("left out: {method} {path}: a webhook route has no shadow mode; add it when you enforce");
        }
        !leaves
    });
}

/// Writes a file that is not there, or one that may be replaced.
fn write(file: &Path, document: &str, force: bool) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let result = options.open(file).and_then(|mut opened| writeln!(opened, "{document}"));
    result.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => format!("{}: {error}", file.display()),
    })
}

fn exists(file: &Path) -> String {
    format!("{} already exists: name another file, or add --force to replace it", file.display())
}
