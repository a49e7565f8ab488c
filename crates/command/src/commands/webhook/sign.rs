//! `webhook sign`: a signed test delivery.

use crate::commands::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::request_input::Files as _;
use crate::explain::terminal_text::{self, printable};
use crate::http::{HttpClient, without_user};
use crate::input::read_policy_document;
use crate::material::{Material, now_unix_ms};
use crate::output::print;
use crate::output::tell;
use crate::webhook::address::{WebhookRoute, binding_of};
use crate::webhook::delivery::{DeliveryOrder, SignedDelivery};
use crate::webhook::provider::KnownProvider;
use crate::webhook::secret::SecretSource;
use crate::webhook::shell;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a delivery may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Signs a test delivery as the provider would, and prints it as a curl command, or sends it.
///
/// The provider is one of the catalogue, one of the policy (`webhooks.providers`), or a file (--provider-file). The filter's
/// own engine verifies the delivery before it is printed or sent.
///
/// Examples:
///   edge-idempotency webhook sign --provider stripe --secret env:STRIPE_WHSEC \
///     --url https://api.example.com/webhooks/stripe/wh_01JSTRIPE
///   edge-idempotency webhook sign --policy policy.json --id wh_01JSTRIPE --base-url http://127.0.0.1:10000 --send
///   edge-idempotency webhook sign --provider github --secret @secret.txt --url http://h/in --json |
///     edge-idempotency explain --policy policy.json --request -
///   edge-idempotency webhook sign --provider discord --url https://api.example.com/webhooks/discord/wh_01JDISCORD
///
/// With --policy and --id the policy gives the URL, and for an id in `webhooks.static` the provider and the variable with the
/// secret. A provider with private keys (Discord, SendGrid) needs no secret: a new key pair is made, and its public half is
/// printed to standard error for the secret store. The secret is not printed; where the provider sends the secret itself
/// (GitLab's and Okta's tokens), the command takes it from its variable or file.
///
/// Exit status: 0 if the delivery was printed, or answered with a status below 300; 1 if the answer was another one, or says that
/// the route's `on_unmatched` acknowledged the delivery, which then reached no handler; 2 if it cannot be signed or sent.
#[derive(Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("where").required(true).args(["url", "id"]))]
pub(crate) struct SignArguments {
    /// The provider, as policies name it.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// A provider file of your own; its name without `.json` is the provider's.
    #[arg(long, value_name = "FILE|-", conflicts_with = "provider")]
    provider_file: Option<PathBuf>,
    /// The policy document, for the URL and for providers of your own.
    #[arg(long, value_name = "FILE|-", required_unless_present = "url")]
    policy: Option<PathBuf>,
    /// The public URL that the provider calls.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The webhook id; the policy's route makes the URL.
    #[arg(long, value_name = "ID", requires = "policy")]
    id: Option<String>,
    /// The route that takes its deliveries, if several can.
    #[arg(long, value_name = "NAME", requires = "id")]
    endpoint: Option<String>,
    /// The scheme and authority in front of the route's path; without it the policy's `public_base_url`.
    #[arg(long, value_name = "URL", requires = "id")]
    base_url: Option<String>,
    /// The secret as the gateway has it, or a private key as PEM.
    // It is parsed in `run`, because clap's errors repeat what was given.
    #[arg(long, value_name = "env:NAME|@FILE|-")]
    secret: Option<String>,
    /// The delivery's identifier; without it a new one.
    #[arg(long, value_name = "TEXT")]
    delivery_id: Option<String>,
    /// The body; without it the command makes one that holds the identifier.
    #[arg(long, value_name = "TEXT|@FILE|@-")]
    body: Option<String>,
    /// Which scheme of the provider's file signs, from 1; without it the first that the secret is for.
    #[arg(long, value_name = "N")]
    scheme: Option<usize>,
    /// Sends the delivery and prints the answer.
    #[arg(long)]
    send: bool,
    /// Sends a delivery that holds the secret itself also over http, without encryption, to another machine.
    #[arg(long, requires = "send")]
    allow_plain_http: bool,
    /// Prints the delivery as a request document of `explain`; with --send, the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Prints the secret if the provider sends it as a token.
    #[arg(long)]
    show_secret: bool,
}

/// Runs the command; its exit status.
pub(super) fn run(args: &SignArguments) -> Result<u8, String> {
    let given = args.secret.as_deref().map(SecretSource::parse).transpose()?;
    let mut document = None;
    if let Some(file) = &args.policy {
        let Some((_, read)) = read_policy_document(file, args.json)? else { return Ok(BAD_INPUT) };
        document = Some(read);
    }
    let binding = match (&document, &args.id) {
        (Some(document), Some(id)) => binding_of(document, id),
        _ => None,
    };
    let name = args.provider.clone().or_else(|| binding.as_ref().map(|binding| binding.provider.clone()));
    let provider = match (&args.provider_file, name) {
        (Some(file), _) => own_provider(file)?,
        (None, Some(name)) => KnownProvider::named(&name, document.as_ref())?,
        (None, None) => return Err("name the provider with --provider: the policy does not list this id".to_owned()),
    };
    let url = match (&args.url, &document, &args.id) {
        (Some(url), ..) => url.clone(),
        (None, Some(document), Some(id)) => {
            let route = WebhookRoute::of(document, &provider.name, id, args.endpoint.as_deref())?;
            route.url(document, id, args.base_url.as_deref())?
        }
        _ => return Err("give --url, or --policy and --id".to_owned()),
    };
    without_user("the URL (--url, --base-url, or `public_base_url` of the policy)", &url)?;
    let source = given.or_else(|| binding.and_then(|binding| binding.secret));
    let secret = source.as_ref().map(SecretSource::read).transpose()?;
    let body = args.body.as_ref().map(|body| Material::default().text_or_file(body)).transpose()?;
    let id = args.delivery_id.clone().map_or_else(|| new_delivery_id(&provider), Ok)?;
    let now_unix = now_unix_ms() / 1000;
    let order = DeliveryOrder {
        provider: &provider,
        scheme: args.scheme,
        url: &url,
        secret: secret.as_deref(),
        id: &id,
        body,
        now_unix,
    };
    let delivery = order.sign()?;
    if let (Some(key), None) = (&delivery.public_key, &secret) {
        tell!("edge-idempotency: a new key pair signed this delivery. The gateway verifies it with this secret: {key}");
    }
    if args.send {
        return send(&delivery, args);
    }
    if args.json {
        if delivery.secret.is_some() && !args.show_secret {
            return Err("the delivery holds the secret itself as a token: add --show-secret to print it".to_owned());
        }
        print(&terminal_text::json(&delivery.to_document()))?;
    } else {
        print(&shell::curl(&delivery, source.as_ref(), args.show_secret)?)?;
    }
    Ok(FORWARD)
}

/// A provider file of the user's own.
fn own_provider(file: &Path) -> Result<KnownProvider, String> {
    let name = file.file_stem().filter(|_| file != Path::new("-")).map(|name| name.to_string_lossy().into_owned());
    KnownProvider::read(&name.unwrap_or_else(|| "own".to_owned()), &crate::input::read(file)?)
}

/// An identifier that no delivery had before; digits alone where the provider's are numbers.
fn new_delivery_id(provider: &KnownProvider) -> Result<String, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!("the operating system gives no random bytes: {error}"))?;
    let is_number = provider.file.identifiers.iter().any(|identifier| identifier.kind.as_deref() == Some("integer"));
    let number = u64::from_be_bytes(bytes) >> 12;
    Ok(if is_number { number.to_string() } else { format!("test_{number:013x}") })
}

fn send(delivery: &SignedDelivery, args: &SignArguments) -> Result<u8, String> {
    let headers: Vec<(&str, &str)> =
        delivery.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reply = HttpClient::new(TIMEOUT)
        .holding_secret(delivery.secret.is_some())
        .allow_plain_http(args.allow_plain_http)
        .send(delivery.method, &delivery.url, &headers, Some(&delivery.body))
        .map_err(|error| error.to_string())?;
    let body = String::from_utf8_lossy(&reply.body);
    let document: Option<Value> = serde_json::from_slice(&reply.body).ok();
    // The filter's own answer to a delivery that it did not forward (docs/contract.md section 5).
    let is_acknowledged = document.as_ref().and_then(|body| body.get("outcome")).is_some_and(|it| it == "acknowledged");
    let accepted = reply.status < 300 && !is_acknowledged;
    if args.json {
        print(&terminal_text::json(&json!({
            "url": delivery.url,
            "key": delivery.identifier,
            "status": reply.status,
            "accepted": accepted,
            "body": document.unwrap_or_else(|| json!(body)),
        })))?;
    } else {
        let what = match (accepted, is_acknowledged) {
            (true, _) => "accepted",
            (false, true) => "REACHED NO HANDLER",
            (false, false) => "NOT ACCEPTED",
        };
        let key = delivery
            .identifier
            .as_deref()
            .map(|key| format!("\nidentifier of the delivery: {key}"))
            .unwrap_or_default();
        let shown: Vec<_> = body.lines().map(printable).collect();
        print(&format!("{what}: {} from {}{key}\n\n{}", reply.status, delivery.url, shown.join("\n")))?;
    }
    Ok(if accepted { FORWARD } else { REJECT })
}
