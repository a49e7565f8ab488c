//! `webhook new`: an id, its URL, and the records that make it known.

use crate::commands::{BAD_INPUT, FORWARD};
use crate::explain::terminal_text;
use crate::http::{HttpClient, without_user};
use crate::input::{read_policy_document, variable};
use crate::output::print;
use crate::output::tell;
use crate::webhook::address::WebhookRoute;
use crate::webhook::provider::KnownProvider;
use crate::webhook::records::{NewWebhook, SecretPlace, create_key, new_id};
use crate::webhook::secret::SecretSource;
use clap::Args;
use edge_idempotency_engine::identity::{Project, Tenant};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long a store may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What stands for the id in the printed URL until Unkey has made it.
const LATER: &str = "KEY_OF_THE_ANSWER";

/// Makes a webhook: an id of 128 random bits, the URL for the provider's settings page, and the records that the policy's
/// stores need. They are printed, or written with --apply.
///
/// If the route names an id, the webhook has this id, and a binding in `webhooks.static`. Otherwise, if the policy looks ids up in
/// Unkey, Unkey makes the id, with as many random bits. Without Unkey the id is made here, for `webhooks.static`, too.
///
/// Examples:
///   edge-idempotency webhook new --policy policy.json --tenant acme --project shop --provider stripe
///   edge-idempotency webhook new --policy policy.json --tenant acme --project shop --provider stripe \
///     --secret env:STRIPE_WHSEC --apply --unkey https://api.unkey.com --unkey-api api_123 --openbao https://openbao:8200
///
/// --apply takes the root key from UNKEY_ROOT_KEY and the token from BAO_TOKEN or VAULT_TOKEN. The secret is written first,
/// and only where there is none: all webhooks of one tenant, project and provider share it. Secrets and tokens are not
/// printed.
///
/// Exit status: 0 if the webhook was printed or written, 2 if something cannot be read, reached or written.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArguments {
    /// The policy document.
    #[arg(long, value_name = "FILE|-")]
    policy: PathBuf,
    /// The tenant whose webhook it is.
    #[arg(long)]
    tenant: String,
    /// The project whose webhook it is.
    #[arg(long)]
    project: String,
    /// The provider, as policies name it.
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The route that takes its deliveries, if several can.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// The scheme and authority in front of the route's path; without it the policy's `public_base_url`.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The secret that the provider signs with, to be written by --apply.
    // It is parsed in `run`, because clap's errors repeat what was given.
    #[arg(long, value_name = "env:NAME|@FILE|-", requires = "apply")]
    secret: Option<String>,
    /// Writes a new version if the secret store has a secret for this owner.
    #[arg(long, requires = "secret")]
    replace_secret: bool,
    /// Sends the credentials also over http, without encryption, to another machine.
    #[arg(long, requires = "apply")]
    allow_plain_http: bool,
    /// Gives each webhook its own keys, so that webhooks of one project never share a result.
    #[arg(long)]
    key_scope_webhook: bool,
    /// Whether keys include a digest of the body; without it the provider's default.
    #[arg(long, value_name = "BOOL")]
    bind_body: Option<bool>,
    /// Writes the records.
    #[arg(long)]
    apply: bool,
    /// The URL of Unkey's API.
    #[arg(long, value_name = "URL", default_value = "https://api.unkey.com")]
    unkey: String,
    /// The API in Unkey whose keys are webhook ids.
    #[arg(long, value_name = "ID", required_if_eq("apply", "true"), default_value_if("apply", "false", "api_…"))]
    unkey_api: Option<String>,
    /// The URL of OpenBao or Vault, for --secret.
    #[arg(long, value_name = "URL")]
    openbao: Option<String>,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command; its exit status.
pub(super) fn run(args: &NewArguments) -> Result<u8, String> {
    let secret = args.secret.as_deref().map(SecretSource::parse).transpose()?;
    let Some((_, document)) = read_policy_document(&args.policy, args.json)? else { return Ok(BAD_INPUT) };
    // These errors come before anything is written.
    without_user("--unkey", &args.unkey)?;
    without_user("--openbao", args.openbao.as_deref().unwrap_or_default())?;
    let base_url = args.base_url.as_deref().or_else(|| document.pointer("/webhooks/public_base_url")?.as_str());
    without_user("--base-url, or `public_base_url` of the policy,", base_url.unwrap_or_default())?;
    KnownProvider::named(&args.provider, Some(&document))?;
    let segment = "expected [A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}, neither `.` nor `..`";
    Tenant::parse(args.tenant.as_bytes()).map_err(|_| format!("--tenant: {segment}"))?;
    Project::parse(args.project.as_bytes()).map_err(|_| format!("--project: {segment}"))?;
    let mut more = Map::new();
    if args.key_scope_webhook {
        more.insert("key_scope".to_owned(), json!("webhook"));
    }
    if let Some(bind_body) = args.bind_body {
        more.insert("bind_body".to_owned(), json!(bind_body));
    }
    let webhook = NewWebhook {
        tenant: args.tenant.clone(),
        project: args.project.clone(),
        provider: args.provider.clone(),
        more,
    };
    let route = WebhookRoute::for_new(&document, &args.provider, args.endpoint.as_deref())?;
    let url = |id: &str| route.url(&document, id, args.base_url.as_deref());
    let fixed = route.id.clone();
    if let (Some(id), true) = (&fixed, args.apply) {
        return Err(format!(
            "--apply: the policy's route for {} names the id {id}, and Unkey makes ids of its own; without --apply the binding for \
             `webhooks.static` is printed",
            args.provider
        ));
    }
    let has_unkey = document.pointer("/webhooks/unkey").is_some();
    let place = SecretPlace::of(&document, &webhook);
    if args.apply {
        if !has_unkey {
            return Err(
                "--apply: the policy has no `webhooks.unkey`; without --apply the binding for `webhooks.static` is \
                 printed"
                    .to_owned(),
            );
        }
        // The route has to be there before the records are.
        url(LATER)?;
        let id = apply(args, &webhook, place.as_ref(), secret.as_ref())?;
        return shown(args, &id, &url(&id)?, &json!({}), None);
    }
    if has_unkey && fixed.is_none() {
        let record = webhook.unkey_key(args.unkey_api.as_deref().unwrap_or("api_…"));
        return shown(args, LATER, &url(LATER)?, &json!({"unkey": record}), place.as_ref());
    }
    let id = fixed.map_or_else(new_id, Ok)?;
    let mut binding = Map::new();
    binding.insert(id.clone(), webhook.binding(&webhook.variable()));
    shown(args, &id, &url(&id)?, &json!({"static": binding}), None)
}

/// Writes the secret, then the key. So an id that exists has a secret.
fn apply(
    args: &NewArguments,
    webhook: &NewWebhook,
    place: Option<&SecretPlace>,
    secret: Option<&SecretSource>,
) -> Result<String, String> {
    let from = |names: &[&str]| {
        let value =
            names.iter().find_map(|name| variable(name)).ok_or_else(|| format!("set {}", names.join(" or ")))?;
        String::from_utf8(value).map_err(|_| format!("{} is not text", names.join(" or ")))
    };
    let root_key = from(&["UNKEY_ROOT_KEY"])?;
    if let Some(source) = secret {
        let place = place.ok_or("--secret: the policy has no `webhooks.openbao` to write it to")?;
        let url = args.openbao.as_deref().ok_or("--secret needs --openbao, the URL of the secret store")?;
        let secret = String::from_utf8(source.read()?).map_err(|_| "the secret is not text".to_owned())?;
        let mut client = HttpClient::new(TIMEOUT).allow_plain_http(args.allow_plain_http);
        client.always("X-Vault-Token", &from(&["BAO_TOKEN", "VAULT_TOKEN"])?)?;
        place.write(&client, url, &secret, args.replace_secret)?;
        tell!("edge-idempotency: wrote the secret of {} to {}/{}", webhook.owner(), place.mount, place.path);
    }
    let mut client = HttpClient::new(TIMEOUT).allow_plain_http(args.allow_plain_http);
    client.always("authorization", &format!("Bearer {root_key}"))?;
    let api = args.unkey_api.as_deref().unwrap_or_default();
    let id = create_key(&client, &args.unkey, &webhook.unkey_key(api))?;
    tell!("edge-idempotency: made the key in {api}");
    Ok(id)
}

/// Prints the webhook.
fn shown(args: &NewArguments, id: &str, url: &str, records: &Value, place: Option<&SecretPlace>) -> Result<u8, String> {
    if args.json {
        let secret = place.map(|place| json!({"mount": place.mount, "path": place.path, "data": {"secret": "…"}}));
        print(&terminal_text::json(&json!({
            "id": (id != LATER).then_some(id),
            "url": url,
            "unkey": records.get("unkey"),
            "static": records.get("static"),
            "openbao": secret,
            "applied": args.apply,
        })))?;
        return Ok(FORWARD);
    }
    let mut text = format!("url: {url}");
    if id != LATER {
        text = format!("id: {id}\n{text}");
    }
    // Writing to a string does not fail.
    if let Some(record) = records.get("unkey") {
        let _ = write!(
            text,
            "\n\nUnkey makes the id; it is `data.key` of the answer:\n\nprintf 'Authorization: Bearer %s\\n' \"$UNKEY_ROOT_KEY\" |\ncurl {} \\\n  \
             -H @- -H 'Content-Type: application/json' --data-raw {}",
            shell_words::quote(&format!("{}/v2/keys.createKey", args.unkey.trim_end_matches('/'))),
            shell_words::quote(&terminal_text::json(record))
        );
    }
    if let Some(binding) = records.get("static") {
        let _ = write!(text, "\n\nin `webhooks.static` of the policy:\n\n{}", terminal_text::json(binding));
    }
    if let Some(place) = place {
        let _ = write!(
            text,
            "\n\nOpenBao needs the secret that the provider shows, if it does not have it yet:\n\nprintf '%s' \"$SECRET\" | bao kv \
             put -mount={} {} secret=-",
            shell_words::quote(&place.mount),
            shell_words::quote(&place.path)
        );
    }
    print(&text)?;
    Ok(FORWARD)
}
